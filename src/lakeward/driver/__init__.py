"""The driver: one Spark application that hosts one or more streams and lands their batches.

`main.run` is the whole life of one launch. Everything that decides is pure (`decide`, `preflight`, `plan`); threads
only carry: `link` talks to the registry, `recorder` writes what happened, `lag` asks the sources where they end.
"""
