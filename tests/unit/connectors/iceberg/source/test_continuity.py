"""Where a stream of a table may begin and go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeward.connectors.iceberg.source.continuity import check, first, missing
from lakeward.connectors.iceberg.source.history import Commit, History
from lakeward.connectors.iceberg.source.position import Offset, parse
from lakeward.platform.errors import Blocked, SpecError
from lakeward.spec.model.table_source import IcebergSource

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def chain(first_: int, last: int, *, others: tuple[int, ...] = (), **operations: str) -> History:
    """Commits first_..last, one a minute, ten rows in two files each; the parent of number 1 is nothing."""
    made = [
        Commit(n, n - 1 if n > 1 else None, NOW + timedelta(minutes=n), operations.get(f"at_{n}", "append"), 2, 10, 0,
               10 * n)
        for n in range(first_, last + 1)
    ]  # fmt: skip
    return History("ns.up", "u", "prod", tuple(reversed(made)), {n: NOW + timedelta(minutes=n) for n in others})


def source(**more: Any) -> IcebergSource:
    return IcebergSource.model_validate({"table": "ns.up", "max_rows_per_trigger": 5, **more})


def blocked(at: Offset, history: History, *skip: str) -> Blocked:
    with pytest.raises(Blocked) as caught:
        check("s", "source", at, history, skip)
    return caught.value


def test_a_position_is_icebergs_own_text_in_one_form() -> None:
    text = '{"version":1,"snapshot_id":7,"position":3,"scan_all_files":false}'
    assert parse(text) == Offset(7, 3)
    assert parse(text).text == '{"position":3,"scan_all_files":false,"snapshot_id":7,"version":1}'
    assert parse(Offset(None).text) == Offset(None)
    with pytest.raises(ValueError, match="not an offset"):
        parse('{"version":1,"snapshot_id":7,"position":3,"scan_all_files":true}')


def test_compaction_is_passed_over_and_changes_of_rows_are_not() -> None:
    check("s", "source", Offset(2), chain(1, 5, at_3="replace"), ())
    check("s", "source", Offset(3), chain(1, 5, at_3="overwrite"), ())  # it was read, or skipped, before
    assert "snapshot 3 of 2026-03-01T12:03:00Z is an overwrite" in blocked(
        Offset(2), chain(1, 5, at_3="overwrite"), "deletes"
    ).why  # fmt: skip
    check("s", "source", Offset(2), chain(1, 5, at_3="overwrite", at_4="delete"), ("deletes", "overwrites"))


def test_what_is_gone_is_reported_by_how_it_went() -> None:
    assert blocked(Offset(2), chain(4, 6)).reason == "source-expired"
    assert (
        "from there up to snapshot 4 of 2026-03-01T12:04:00Z, including its parent 3"
        in blocked(Offset(2), chain(4, 6)).why
    )
    assert "the table had 30 rows then" in blocked(Offset(2), chain(4, 6)).why
    assert blocked(Offset(None), chain(2, 6)).reason == "source-expired", "it began before there was anything"
    assert blocked(Offset(9), chain(1, 6, others=(9,))).reason == "source-rolled-back"
    assert blocked(Offset(9), chain(4, 6, others=(9,))).reason == "source-rolled-back", "also after an expiry"
    assert blocked(Offset(9), chain(1, 6)).reason == "source-replaced"
    again = chain(1, 6, others=(0,))  # committed before the first commit of main
    assert blocked(Offset(0), again).reason == "source-replaced"
    assert blocked(Offset(9), History("ns.up", "u", "prod", (), {9: NOW})).reason == "source-replaced"


def test_a_table_that_was_rolled_back_is_rolled_forward_unless_it_went_on_since() -> None:
    new_id = "give the stream a new id and a new table (conf/streams/s.yaml), then: lakeward deploy"
    forward, other = blocked(Offset(9), chain(1, 6, others=(9,))).next.split("; or ")
    assert forward == (
        "lakeward sql --write \"CALL prod.system.set_current_snapshot('ns.up', 9)\"   restores its rows; "
        "then: lakeward streams start s"
    )
    assert other == new_id
    went_on = History("ns.up", "u", "prod", chain(1, 6).main, {9: NOW + timedelta(minutes=5)})
    assert blocked(Offset(9), went_on).next == new_id


def test_a_dropped_table_is_registered_from_its_newest_metadata() -> None:
    back, other = missing("s", "source", "ns.up", "/w/ns/up/metadata/00003-a.metadata.json", "lake").next.split("; or ")
    assert "metadata_file => '/w/ns/up/metadata/00003-a.metadata.json')" in back
    assert back.endswith("lakeward streams start s")
    assert other.endswith("lakeward deploy")
    bare = missing("s", "source", "ns.up", None, "lake")
    assert bare.next.startswith("restore or rename the table, then: lakeward streams start s; or give")


def test_a_stream_begins_with_the_whole_history_or_where_its_spec_says() -> None:
    whole = chain(1, 4)
    assert first("s", "source", source(), whole) == Offset(1)
    assert first("s", "source", source(), History("ns.up", "u", "prod")) == Offset(None)
    assert first("s", "source", source(starting="latest"), whole) == Offset(4, 2)
    assert first("s", "source", source(starting_snapshot=3), whole) == Offset(3)
    assert first("s", "source", source(starting_timestamp="2026-03-01T13:01:30+01:00"), whole) == Offset(2)
    assert first("s", "source", source(starting_timestamp="2027-01-01T00:00:00Z"), whole) == Offset(4, 2)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "20 rows committed before that would never be read"),
        ({"starting_snapshot": 2}, "snapshot 2 is not on its main branch"),
        ({"starting_timestamp": "2026-03-01T12:00:00Z"}, "commits since 2026-03-01T12:00:00Z were expired"),
    ],
)
def test_a_beginning_that_is_not_there_any_more_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why) as caught:
        first("s", "source", source(**more), chain(3, 6))
    assert "starting_snapshot: 3" in caught.value.next


def test_waiting_rows_count_what_is_left_of_the_commit_under_way() -> None:
    whole = chain(1, 4, at_3="replace")
    assert whole.waiting(Offset(None)) == (30, NOW + timedelta(minutes=1))
    assert whole.waiting(Offset(1, 1)) == (25, NOW + timedelta(minutes=1))
    assert whole.waiting(Offset(2, 2)) == (10, NOW + timedelta(minutes=4))
    assert whole.waiting(Offset(4, 2)) == (0, None)
