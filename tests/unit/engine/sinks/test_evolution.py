"""Schema evolution at a start: which position the table must have, and what a change makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from contract_rig import MemoryRig

from lakeward.connectors.commit_protocol import attempt
from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, RetryCommit
from lakeward.connectors.commit_protocol.writer import Read
from lakeward.engine.sinks.evolution import MovedPosition, SchemaChange, evolve
from lakeward.platform.errors import Fenced, Transient


class Table:
    """A table in memory that has landed one batch and lacks one column."""

    def __init__(self) -> None:
        self.rig = MemoryRig()
        self.rig.land(0)
        self.lacking = ["extra"]
        self.refused = 0
        self.versions: list[int | None] = [None]

    def compare(self, read: Read) -> SchemaChange:
        return SchemaChange(list(self.lacking), [f"adds {name}" for name in self.lacking], self.apply, ("a note",))

    def apply(self, moved: MovedPosition) -> None:
        if self.refused:
            self.refused -= 1
            raise RetryCommit("another commit came first")
        position = [moved(version) for version in self.versions][-1]
        self.rig.table.raw = None if position is None else position.to_json()
        self.lacking = []

    def evolve(self, writer: Any, observed: str | None) -> SchemaChange:
        table, change = evolve(writer, observed, lambda: writer.load(None), self.compare)
        assert table.raw == self.rig.raw
        return change


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(attempt, "_FIRST_PAUSE_S", 0.001)
    return Table()


def test_a_table_that_fits_is_not_changed(table: Table) -> None:
    table.lacking, before, writer = [], table.rig.raw, table.rig.writer()
    assert table.evolve(writer, before).notes == ("a note",)
    assert table.rig.raw == before == writer._expected


def test_a_change_moves_the_position_to_the_new_generation_and_fences_the_older_driver(table: Table) -> None:
    older = table.rig.writer()
    table.rig.land(1, older)
    before = table.rig.position
    newer = table.rig.writer()
    newer.generation = 4

    table.evolve(newer, table.rig.raw)

    after = table.rig.position
    assert (after.generation, after.added) == (4, {"extra": 4})
    assert (after.seq, after.end, after.batch) == (before.seq, before.end, before.batch)
    assert after.attempt != before.attempt
    with pytest.raises(Fenced):
        table.rig.land(2, older)
    table.rig.land(2, newer)
    assert table.rig.position.added == {"extra": 4}, "the next batch keeps it"


def test_a_position_that_names_its_version_gets_the_newest_one(table: Table) -> None:
    table.versions = [7, 8]
    table.evolve(table.rig.writer(), table.rig.raw)
    assert (table.rig.position.snapshot, table.rig.position.snapshot_seq) == (8, 8)


def test_a_stream_without_a_position_gets_none(table: Table) -> None:
    table.rig.table.raw = None
    table.evolve(table.rig.writer(), None)
    assert table.rig.raw is None


def test_a_position_that_another_writer_moved_since_it_was_observed_fences(table: Table) -> None:
    observed = table.rig.raw
    table.rig.land(1)
    with pytest.raises(Fenced):
        table.evolve(table.rig.writer(), observed)
    assert table.lacking == ["extra"]


def test_a_position_moved_between_two_attempts_fences(table: Table) -> None:
    """Its own change is expected there; a batch of another driver is not."""
    observed, table.refused = table.rig.raw, 1
    commit = table.apply

    def apply(moved: MovedPosition) -> None:
        if table.refused:
            table.rig.land(1)
        commit(moved)

    table.apply = apply  # type: ignore[method-assign]  # the event between the attempts
    with pytest.raises(Fenced):
        table.evolve(table.rig.writer(), observed)
    assert table.lacking == ["extra"]


def test_a_commit_that_came_first_is_retried_and_ends_as_contention(table: Table) -> None:
    table.refused = ATTEMPTS - 2  # the last attempt finds that the table fits
    table.evolve(table.rig.writer(), table.rig.raw)
    table.lacking, table.refused = ["more"], ATTEMPTS
    with pytest.raises(Transient, match="contention"):
        table.evolve(table.rig.writer(), table.rig.raw)
    assert table.refused == 0
