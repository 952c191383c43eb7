"""Dispatches one of Lakeward's own checks, and turns its errors into a check result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from lakeward.quality.engine.custom import accounted, others
from lakeward.quality.engine.custom import history as usually
from lakeward.quality.engine.custom.base import CheckContext
from lakeward.quality.engine.custom.landed import Uncountable
from lakeward.quality.results.json_values import sentence
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State
from lakeward.spec.model.custom_expectations import OWN
from lakeward.spec.read.messages import findings

Kind = Callable[[Any, ConfiguredCheck, CheckContext], Check]
"""(arguments, configured check, context) -> the result."""


def is_own(configured: ConfiguredCheck) -> bool:
    """Whether the check is one of Lakeward's own."""
    return str(configured.expectation.type) in OWN


def check(configured: ConfiguredCheck, context: CheckContext) -> Check:
    """The result of one check. Any error of the engine is an error of this check alone."""
    kinds: dict[str, Kind] = {
        "expect_volume_as_usual": usually.volume,
        "expect_freshness_as_usual": usually.freshness,
        "expect_keys_to_be_in_reference": others.keys_present,
        "expect_totals_to_equal_other_table": others.totals_equal,
        "expect_landed_to_equal_offsets": accounted.landed_equals_offsets,
    }
    name = str(configured.expectation.type)
    data = dict(configured.expectation.kwargs)
    try:
        return kinds[name](OWN[name].model_validate(data), configured, context)
    except ValidationError as error:
        messages = "; ".join(finding.message for finding in findings(error, OWN[name], data))
        return configured.blank(State.ERROR, f"its kwargs are invalid: {messages}")
    except Uncountable as error:
        return configured.blank(State.ERROR, str(error))
    except Exception as error:  # noqa: BLE001 - the boundary of one check: an engine error is neither pass nor failure
        return configured.blank(State.ERROR, sentence(str(error)))
