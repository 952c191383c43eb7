"""Runs a proposed suite on the rows it was made from: what fails them is not proposed."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.suite.propose import Proposal, without
from lakeward.quality.verdicts.verdict import State
from lakeward.spec.model.custom_expectations import OWN
from lakeward.spec.model.suite import Expectation

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame

_MODE = {"SPARK_CONNECT_MODE_ENABLED": "1"}
_STACKS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_VARIABLES = (*_MODE, "SPARK_REMOTE")


def tried(made: Proposal, frame: DataFrame) -> Proposal:
    """The proposal without the expectations that fail the rows, or that cannot be computed on them.

    Lakeward's own checks are kept: they compare with runs that have not been.

    Raises:
        PySparkException: no server answers.
    """
    configured = [
        ConfiguredCheck(str(index), Expectation(type=each["type"], kwargs=each["kwargs"]), "table")
        for index, each in enumerate(made.expectations)
        if each["type"] not in OWN
    ]
    if not configured:
        return made
    with connect_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Great Expectations imports
        from lakeward.quality.engine.bridge import checks as bridge
        from lakeward.quality.engine.settling import settle_all

        sound, results = settle_all(configured, frame)
        results |= bridge.check(frame, sound, sampled=False)
    failed = {
        int(check.id): check.error or str(check.observed)
        for check in results.values()
        if check.state in (State.FAIL, State.ERROR)
    }
    return without(made, failed)


@contextmanager
def connect_mode() -> Iterator[None]:
    """Spark's functions, which Great Expectations calls, make columns of Spark Connect inside of this block.

    The variables are as before afterwards: a classic session of the same process would fail with them.
    """
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # before the import, which would send a network request
    os.environ.update(_MODE)
    for name in _STACKS:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # PySpark logs each error that it raises with its stack
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
