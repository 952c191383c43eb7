"""Spark's words for state that does not fit, as a block."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lakeward.engine.assignment import Assignment
from lakeward.engine.checkpoint import state_errors

ASSIGNMENT = Assignment("flights", 3, {}, "/ck/flights")
VALUES = (
    "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match existing state value schema.\n"
    "Please check number and type of fields.\nExisting value_schema=StructType(StructField(count,LongType,false)) and "
    "new value_schema=StructType(StructField(count,LongType,false),StructField(sum,DecimalType(20,2),true)).\n"
    "If you want to force running the query without schema validation, please set X to false."
)
NESTED = "StructField(a,StructType(StructField(b,LongType,true)),false)"


@dataclass
class Throwable:
    """As py4j shows one."""

    said: str | None
    cause: Throwable | None = None

    def getMessage(self) -> str | None:  # Java's name
        return self.said

    def getCause(self) -> Throwable | None:  # Java's name
        return self.cause


def test_what_is_kept_and_what_would_be_stand_beside_each_other() -> None:
    found = state_errors.of(ASSIGNMENT, Throwable(None, Throwable(VALUES)))
    assert found is not None
    assert (found.reason, found.what) == ("state-unfit", "The state of stream flights does not fit generation 3")
    assert found.why == (
        "/ck/flights/state: its values are (count LONG), this generation's would be (count LONG, sum DECIMAL(20,2)). "
        "The state was not changed (STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE)"
    )
    assert "lakeward streams rollback flights" in found.next


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("[STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE] Cannot change last to ValueState between query restarts. Please",
         "Cannot change last to ValueState between query restarts. Please. The state"),
        ("[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match",
         "operator name does not match. The state"),
        (VALUES.replace("StructField(count,LongType,false)", NESTED),
         "its values are (StructType("),
    ],
)  # fmt: skip
def test_other_conditions_in_sparks_own_words(said: str, words: str) -> None:
    found = state_errors.of(ASSIGNMENT, Throwable(said))
    assert found is not None
    assert words in found.why


def test_other_failures_are_none_of_the_states() -> None:
    assert state_errors.of(ASSIGNMENT, None) is None
    assert (
        state_errors.of(ASSIGNMENT, Throwable("[STATE_STORE_INVALID_PROVIDER] x", Throwable("no space left on device")))
        is None
    )
