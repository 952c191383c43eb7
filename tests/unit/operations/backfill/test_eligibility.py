"""Which ranges are landed on their own, under what name, in which steps."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typed import commands, parsed

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.quarantine import quarantine_stream_name
from lakeward.operations.backfill.eligibility import name_of, next_end, overwritable, repairable, suited
from lakeward.platform.errors import Refused
from lakeward.spec.model.stream import StreamSpec

_KAFKA = {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 1}}
_UPSERT = {"table": "a.t", "mode": "upsert", "keys": ["n"]}


def _spec(sink: dict[str, Any], **more: Any) -> StreamSpec:
    whole = {
        "id": "s", "owner": "o", "source": _KAFKA, "decode": {"json": "n INT, v INT"}, "quarantine": {"table": "a.q"},
        "late": {"table": "a.l"},
        "transform": {"sql": "SELECT * FROM source"}, "sink": sink, "trigger": {"every": "1s"}, **more,
    }  # fmt: skip
    return StreamSpec.model_validate({name: value for name, value in whole.items() if value is not None})


@pytest.mark.parametrize(
    ("sink", "into", "why"),
    [
        ({"iceberg": {"table": "a.t"}}, None, "its sink only appends: rows that are in the table would land a second"),
        ({"iceberg": {"table": "a.t"}}, "a.t", "a.t is a table of the stream itself"),
        ({"iceberg": {"table": "a.t"}}, "a.q", "a.q is a table of the stream itself"),
        ({"iceberg": {"table": "a.t"}}, "a.l", "a.l is a table of the stream itself"),
        ({"iceberg": {"table": "a.t", "mode": "complete"}}, "a.n", "mode complete replaces all rows"),
        ({"iceberg": _UPSERT}, None, "mode upsert without order_by"),
        ({"iceberg": {**_UPSERT, "order_by": "v", "delete_when": "n < 0"}}, None, "delete_when keeps no trace"),
        ({"delta": {"table": "a.t"}}, "a.n", "its sink is delta"),
    ],
)
def test_what_is_in_the_way_is_named(sink: dict[str, Any], into: str | None, why: str) -> None:
    with pytest.raises(Refused) as refused:
        suited(_spec(sink), into)
    assert refused.value.why.startswith(why)
    for command in commands(refused.value.next):
        parsed(command)
    assert not re.search(r"\b(TIME|NAMESPACE|TABLE)\b", refused.value.next)


def test_other_sources_are_not_read_in_ranges_yet() -> None:
    spec = _spec({"iceberg": {"table": "a.t"}}, source={"rate": {"rows_per_second": 1}}, decode=None)
    with pytest.raises(Refused, match="its source is rate"):
        suited(spec, "a.n")
    many = {"a": {**_KAFKA, "decode": {"json": "n INT"}}, "b": _KAFKA}
    spec = _spec({"iceberg": {"table": "a.t"}}, source=None, decode=None, sources=many)
    with pytest.raises(Refused, match="it has several sources"):
        suited(spec, "a.n")


@pytest.mark.parametrize(
    ("sink", "more", "readers", "why"),
    [
        ({"iceberg": _UPSERT}, {}, [], "--overwrite is for Iceberg tables of mode append; its sink is iceberg, mode u"),
        ({"delta": {"table": "a.t"}}, {}, [], "--overwrite is for Iceberg tables of mode append; its sink is delta"),
        ({"iceberg": {"table": "a.t"}}, {"source": {"rate": {}}, "decode": None}, [], "its rows must carry positions"),
        ({"iceberg": {"table": "a.t"}}, {}, ["r"], "a commit that removes rows blocks the streams that read a.t: r"),
    ],
)
def test_what_cannot_be_overwritten_is_named(
    sink: dict[str, Any], more: dict[str, Any], readers: list[str], why: str
) -> None:
    with pytest.raises(Refused) as refused:
        overwritable(_spec(sink, **more), readers)
    assert refused.value.why.startswith(why)
    where = "streams reset s" if "delta" in sink else "--into a.t_again"
    assert where in (refused.value.next or "")


def test_files_stand_for_topics_and_for_files_only() -> None:
    spec = _spec({"iceberg": {"table": "a.t"}}, source={"rate": {"rows_per_second": 1}}, decode=None)
    with pytest.raises(Refused, match="files can replace Kafka and file sources"):
        suited(spec, "a.n", files=True)
    with pytest.raises(Refused, match="rows of these files that are in the table would land a second time"):
        suited(_spec({"iceberg": {"table": "a.t"}}), None, files=True)
    suited(_spec({"iceberg": {"table": "a.t"}}), "a.n", files=True)


def test_what_is_exact_is_suited() -> None:
    suited(_spec({"iceberg": {"table": "a.t"}}), "a.n")
    suited(_spec({"iceberg": {**_UPSERT, "delete_when": "n < 0"}}), "a.n")
    suited(_spec({"iceberg": {**_UPSERT, "order_by": "v"}}), None)


def _at(begin: str, generation: int = 3) -> Position:
    return Position(seq=4, query_id="q", batch=3, generation=generation, begin={"source": begin}, end={"source": "e"})


def _name(positions: dict[str, Position], *, alone: bool = True, rows: bool = True) -> tuple[str, Position | None]:
    return name_of("s", 3, "a.n", positions, {"source": "b"}, alone=alone, rows=rows)


def test_the_same_backfill_goes_on_and_another_has_another_name() -> None:
    assert _name({}, rows=False) == ("s@backfill-1", None)
    assert _name({"s@backfill-1": _at("b")}) == ("s@backfill-1", _at("b"))
    live = {"s": _at("z"), "s@backfill-1": _at("b", generation=2), "s@backfill-2": _at("c"), "s@backfill-10": _at("d")}
    assert _name(live, alone=False) == ("s@backfill-11", None)
    assert _name({**live, "s@backfill-12": _at("b")}, alone=False)[0] == "s@backfill-12"
    used = ["s", "s@backfill-14", "s@windows-99", "t@backfill-77"]
    found = name_of("s", 3, "a.n", live, {"source": "b"}, alone=False, rows=True, used=used)
    assert found == ("s@backfill-15", None), "not the name of one whose position is gone"


def test_bad_rows_of_backfills_into_different_tables_are_set_aside_apart() -> None:
    assert quarantine_stream_name("s@backfill-1", "a.n") == "s@backfill-1 into a.n"
    assert quarantine_stream_name("s@rebuild-1", "a.n") == "s@rebuild-1"


@pytest.mark.parametrize(
    ("positions", "rows"),
    [
        ({"s@backfill-1": _at("c")}, True),  # another range
        ({"s@backfill-1": _at("b", generation=2)}, True),  # by another generation
        ({"s@backfill-1": _at("b"), "other": _at("b")}, True),
        ({}, True),  # somebody's own rows
    ],
)
def test_a_new_table_holds_nothing_else(positions: dict[str, Position], rows: bool) -> None:
    with pytest.raises(Refused, match="it holds other rows"):
        _name(positions, rows=rows)


def test_steps_are_shared_between_partitions_and_end_exactly() -> None:
    at, end = {"t": {0: 0, 1: 90}}, {"t": {0: 100, 1: 100}}
    sizes = []
    while (to := next_end(at, end, 22)) is not None:
        sizes.append(sum(to["t"].values()) - sum(at["t"].values()))
        assert all(at["t"][part] <= to["t"][part] <= end["t"][part] for part in (0, 1))
        at = to
    assert at == end
    assert max(sizes) <= 22 and len(sizes) <= 7


def test_a_partition_beyond_its_end_stays() -> None:
    assert next_end({"t": {0: 7, 1: 3}}, {"t": {0: 5, 1: 4}}, 0) == {"t": {0: 7, 1: 4}}
    assert next_end({"t": {0: 7}}, {"t": {0: 5}}, 10) is None


_HOURS = {"sql": "SELECT window.start AS h, n FROM source GROUP BY window(_kafka_timestamp, '1 hour'), n"}
_MARK = {"column": "_kafka_timestamp", "delay": "1h"}


@pytest.mark.parametrize(
    ("more", "readers", "why"),
    [
        ({}, ["r"], "a commit that removes rows blocks the streams that read a.t: r"),
        ({"rules": {"some": "n > 0"}}, [], "it has rules"),
        ({"source": {**_KAFKA, "deduplicate": {"keys": ["n"], "within_watermark": True}}}, [], "it drops duplicates"),
        ({"sink": {"delta": {"table": "a.t"}}}, [], "windows are replaced in Iceberg tables"),
        ({"transform": {"sql": "SELECT n FROM source"}}, [], "it does not group by one window"),
    ],
)
def test_windows_that_cannot_be_repaired_are_named(more: dict[str, Any], readers: list[str], why: str) -> None:
    whole = {"sink": {"iceberg": {"table": "a.t"}}, "transform": _HOURS, "watermark": _MARK, "lineage": "none", **more}
    if "deduplicate" in str(more):
        whole["source"] = {**_KAFKA, "watermark": _MARK, "decode": {"json": "n INT"}, **more["source"]}
        whole |= {"decode": None, "watermark": None}
    with pytest.raises(Refused) as refused:
        repairable(_spec(whole.pop("sink"), **whole), readers)
    assert refused.value.why.startswith(why)


def test_the_window_of_a_stream_is_found() -> None:
    assert repairable(_spec({"iceberg": {"table": "a.t"}}, transform=_HOURS, watermark=_MARK)).column == "h"
