"""Of which streams rows can be put aside, and what is told."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.cli.quality.quarantine import text_of
from lakeward.operations.quarantine.remove import suited
from lakeward.platform.errors import Refused
from lakeward.spec.model.stream import StreamSpec


def spec(**more: Any) -> StreamSpec:
    made: dict[str, Any] = {
        "id": "s", "owner": "me", "source": {"kafka": {"topics": ["t"]}}, "decode": {"json": "n INT"},
        "transform": {"sql": "SELECT * FROM source"}, "sink": {"iceberg": {"table": "a.t"}},
        "quarantine": {"table": "a.q"}, "trigger": {"every": "1s"}, **more,
    }  # fmt: skip
    return StreamSpec.model_validate({key: value for key, value in made.items() if value is not None})


def test_a_stream_of_one_topic_into_an_append_table_is_suited() -> None:
    suited(spec(), "c1")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"sink": {"iceberg": {"table": "a.t", "mode": "upsert", "keys": ["n"]}}}, "mode upsert"),
        ({"sink": {"delta": {"table": "a.t"}}}, "its sink is delta"),
        ({"quarantine": None}, "no quarantine table"),
        ({"lineage": "none"}, "lineage is none"),
        ({"source": {"rate": {}}, "decode": None}, "one Kafka source"),
    ],
)
def test_others_are_refused_with_the_reason(more: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as caught:
        suited(spec(**more), "c1")
    assert why in caught.value.why
    assert caught.value.next.startswith("lakeward quality waive a.t c1 --for 2h")


def test_a_stream_that_reads_the_table_as_it_grows_is_in_the_way() -> None:
    with pytest.raises(Refused) as caught:
        suited(spec(), "c1", ["hourly"])
    assert "blocks the streams that read a.t: hourly" in caught.value.why


def test_what_a_person_reads() -> None:
    found: dict[str, Any] = {
        "stream": "s", "table": "a.t", "quarantine": "a.q", "check": "nulls(n)", "found": 12, "moved": 10, "records": 9,
        "left": [{"why": "they name no record", "count": 2}], "dry_run": False,
    }  # fmt: skip
    assert text_of(found) == [
        "s: 10 of 12 rows of a.t that fail nulls(n) went to a.q",
        "  rows only 1: cannot be replayed, their records expired at the source",
        "  left      2: they name no record",
        '  next      lakeward quality run a.t   then, after the fix: lakeward quality replay a.t --comment "corrected"',
    ]
    assert text_of({**found, "dry_run": True})[0].endswith("would go to a.q")
