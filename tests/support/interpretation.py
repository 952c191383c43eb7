"""Interpretation of queries: for tables of a few rows, compiling a query costs several times what running it does."""

from __future__ import annotations

import os

import seeds

CONF = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark conf by which queries are interpreted."""


def of_the_gate() -> dict[str, str]:
    """The conf of sessions and drivers in the gate; empty at night, where queries are compiled as in production."""
    return {} if os.environ.get(seeds.VARIABLE) else dict(CONF)
