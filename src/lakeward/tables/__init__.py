"""Maintenance of the lake's tables: observe facts, plan (pure), guard, act, verify what really happened.

`run` is the door: `observe`, `plan` and `maintain` return the command line's JSON for Dags and commands alike.
"""
