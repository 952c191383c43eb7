"""The position's canonical form and how it is found among a table's properties."""

from __future__ import annotations

import json

import pytest

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.batch import Counted
from lakeward.connectors.commit_protocol.position import KeptIn, Position, Totals
from lakeward.platform.errors import Blocked


def _position() -> Position:
    return Position(seq=3, query_id="q", batch=2, end={"b": "-", "a": '{"t":{"0":5}}'}, snapshot=7, snapshot_seq=4)


def test_the_canonical_form_reads_back_and_has_sorted_keys() -> None:
    text = _position().to_json()

    assert Position.model_validate_json(text) == _position()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_a_field_of_a_newer_version_is_no_reason_to_stop() -> None:
    text = _position().to_json()[:-1] + ',"later":1}'

    assert position.parse(text, "s", "n.t") == _position()


def test_streams_are_found_whatever_their_names() -> None:
    properties = {position.key("a.b"): _position().to_json(), "lakeward.stream.x": "", "write.wap.enabled": "true"}

    assert list(position.of_properties(properties, "n.t")) == ["a.b"]


@pytest.mark.parametrize("text", ["", "{}", '{"seq":"x"}', "[1]"])
def test_an_unreadable_position_blocks_and_names_the_property(text: str) -> None:
    with pytest.raises(Blocked) as blocked:
        position.parse(text, "flights", "nyc.flights")

    assert blocked.value.reason == "position-unreadable"
    assert "lakeward.stream.flights.position" in blocked.value.why


@pytest.mark.parametrize(
    ("kept", "place", "step"),
    [
        (KeptIn.of_format("iceberg"), "property lakeward.stream.flights.position", "a backup of the table"),
        (KeptIn.of_format("delta"), "domain metadata lakeward.stream.flights.position of the Delta log", "_delta_log"),
        (KeptIn.ROW, "the row of the stream", "its column position"),
        (KeptIn.FILE, "the file with the position", "from a backup"),
    ],
)
def test_an_unreadable_position_is_looked_for_where_its_sink_keeps_it(kept: KeptIn, place: str, step: str) -> None:
    with pytest.raises(Blocked) as blocked:
        position.parse("{", "flights", "nyc.flights", kept)

    assert place in blocked.value.why and step in blocked.value.next
    assert ("property" in blocked.value.why) is (kept is KeptIn.PROPERTY), "only Iceberg has these"


def test_totals_add_up_by_field() -> None:
    one = Totals(consumed=4, landed=2, quarantined=1, filtered=1)

    assert one.plus(one) == Totals(consumed=8, landed=4, quarantined=2, filtered=2)


@pytest.mark.parametrize(
    ("counted", "landed", "totals", "filtered"),
    [
        (Counted(10, 2), 5, Totals(consumed=10, landed=5, quarantined=2, filtered=3), 3),
        (Counted(10, 2, traced=False), 5, Totals(consumed=10, landed=5, quarantined=2), None),  # the newest of each key
        (Counted(10, 2, traced=False), 40, Totals(consumed=10, landed=40, quarantined=2), None),  # exploded
        (Counted(None, 2), 5, Totals(consumed=7, landed=5, quarantined=2), None),  # nobody counted them
    ],
)
def test_consumed_are_the_records_whatever_became_of_them(
    counted: Counted, landed: int, totals: Totals, filtered: int | None
) -> None:
    assert position.totals_of(counted, landed) == totals
    assert counted.filtered(landed) == filtered


def test_a_move_is_one_seq_further_and_no_querys() -> None:
    moved = _position().moved("reset", "ann", end={"a": "-"})

    assert (moved.seq, moved.query_id, moved.batch, moved.attempt) == (4, "", -1, "reset/4/ann")
    assert (moved.end, moved.snapshot, moved.at != "") == ({"a": "-"}, 7, True)


def test_before_anything_landed_a_move_makes_the_first_position() -> None:
    first = Position.before_first(2, {"a": "x"}).moved("skip", "ann", end={"a": "y"})

    assert (first.seq, first.generation, first.begin, first.end) == (1, 2, {"a": "x"}, {"a": "y"})
