from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lakeward.quality.results.json_values import LONGEST, MOST, finite, plain, sentence


class Scalar:
    """Like numpy's."""

    def item(self) -> float:
        return 1.5


class Struct:
    """Like a Spark Row."""

    def asDict(self) -> dict[str, object]:
        return {"at": date(2026, 1, 2)}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (Decimal("1.10"), "1.10"),
        (b"\x01\xff", "01ff"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        ("a\x00b", "a\\u0000b"),
        ("a\ud800b", "a\\ud800b"),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        (Scalar(), 1.5),
        (Struct(), {"at": "2026-01-02"}),
    ],
)
def test_everything_becomes_json(value: object, expected: object) -> None:
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_arguments_are_kept_whole_but_for_what_json_cannot_hold() -> None:
    listed = list(range(MOST * 2))
    assert finite({"value_set": [1e400, [float("nan")], "x"], "all": listed}) == {
        "value_set": ["inf", ["nan"], "x"],
        "all": listed,
    }


def test_large_values_are_cut() -> None:
    assert len(plain("x" * 5000)) == LONGEST
    assert len(plain(list(range(1000)))) == MOST + 1


def test_an_engine_message_is_its_first_line() -> None:
    assert sentence("\n  [MISSING] no such column  \n\tat org.apache...\n") == "[MISSING] no such column"
    assert sentence("") == "no message"
    assert len(sentence("y" * 1000)) == 300


def test_an_error_in_a_python_worker_is_said_by_its_cause() -> None:
    text = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)

During handling of the above exception, another exception occurred:
Traceback (most recent call last):
ValueError: other
"""
    assert sentence(text) == "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    assert sentence(text.partition("Trace")[0]).endswith("Please see the stack trace below.")


def test_a_failed_call_to_the_server_is_reported_by_its_details() -> None:
    text = (
        "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
        '\tdetails = "Connection refused"\n\tdebug_error_string = "UNAVAILABLE:.."\n>'
    )
    assert sentence(text) == "a call to the Spark Connect server failed (UNAVAILABLE): Connection refused"
