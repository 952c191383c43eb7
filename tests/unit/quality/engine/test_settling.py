"""The arguments of one check that cannot be settled are the error of that check alone."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.quality.engine import settling
from lakeward.quality.results.records import _facts
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import State
from lakeward.spec.model.suite import Expectation

COLUMN = SimpleNamespace(name="n", dataType=SimpleNamespace(simpleString=lambda: "bigint"))
FRAME: Any = SimpleNamespace(schema=SimpleNamespace(fields=[COLUMN]), sparkSession=None)


def check(name: str, **kwargs: Any) -> ConfiguredCheck:
    kind = "expect_column_values_to_be_between"
    return ConfiguredCheck(name, Expectation(type=kind, kwargs={"column": "n"} | kwargs), "increment")


def test_an_unforeseen_error_is_one_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    real = settling.settle

    def odd(kind: str, kwargs: Any, columns: Any) -> Any:
        if kwargs["min_value"] == 2:
            raise RecursionError("deep")
        return real(kind, kwargs, columns)

    monkeypatch.setattr(settling, "settle", odd)
    sound, refused = settling.settle_all([check("a", min_value=1), check("odd", min_value=2)], FRAME)
    assert [each.id for each in sound] == ["a"]
    assert refused["odd"].state is State.ERROR and "RecursionError: deep" in str(refused["odd"].error)


def test_what_is_recorded_of_a_check_is_json() -> None:
    [refused] = settling.settle_all([check("inf", max_value=1e400)], FRAME)[1].values()
    assert "inf is not a whole number" in str(refused.error)
    assert json.loads(json.dumps(_facts(refused), allow_nan=False))["kwargs"]["max_value"] == "inf"
