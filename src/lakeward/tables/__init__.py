"""Table maintenance: observe facts, plan (pure), guard, act, and verify the result from metadata.

`run` is the entry point: `observe`, `plan` and `maintain` return the command line's JSON for Dags and commands.
"""
