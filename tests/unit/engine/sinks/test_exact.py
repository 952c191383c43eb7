"""A sink with a position before its query starts: what blocks it, what fences it, and what conflicts with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from contract_rig import ROWS, FolderRig, MemoryRig, MemoryWriter, Rows

from lakeward.connectors.commit_protocol.batch import Counted
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Finding
from lakeward.engine.sinks.base import SinkState
from lakeward.engine.sinks.exact import ExactSink, ObservedSinkTable
from lakeward.engine.sinks.files import FilesStreamSink
from lakeward.platform.errors import Blocked, Fenced

LOCATION = "/lake/ns/t"
TOPICS = {"t": "id-1"}
NEW = Checkpoint("/checkpoint")


@dataclass
class MemorySink(ExactSink[MemoryWriter]):
    """The sink of a table in memory."""

    exists: bool = True
    others: dict[str, Position] = field(default_factory=dict)

    def observe_table(self) -> ObservedSinkTable | None:
        return ObservedSinkTable(self.writer.load(None), LOCATION, self.others) if self.exists else None

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        self.writer.stateful = stateful


@pytest.fixture
def rig() -> MemoryRig:
    return MemoryRig()


def test_a_missing_table_is_reported_with_its_reason(rig: MemoryRig) -> None:
    sink = MemorySink(rig.writer(), exists=False)
    state = sink.observe({})
    assert (state.position, state.halt) == (None, None)
    assert state.absent is not None
    assert (state.absent().reason, state.absent().code) == ("table-missing", "LW-2219")
    assert sink.location() is None
    assert sink.conflict("/elsewhere", NEW, dict, {}) is None


def test_the_position_is_observed_and_a_move_after_that_fences_the_first_batch(rig: MemoryRig) -> None:
    rig.land(0)
    sink = MemorySink(rig.writer())
    assert sink.observe(TOPICS) == SinkState(rig.position)
    assert sink.observed_raw == rig.raw
    rig.land(1)
    with pytest.raises(Fenced):
        sink.land(Rows((1,)), 1, Counted(), None, None)


def test_what_would_block_the_next_batch_is_observed_before_the_query_starts(rig: MemoryRig) -> None:
    writer = rig.writer()
    reason = BlockReason("rolled-back", "what", "why", "next", code="LW-0000")
    writer.halt = reason
    assert MemorySink(writer).observe({}) == SinkState(None, reason)
    writer.halt = None
    rig.land(0)
    halt = MemorySink(rig.writer()).observe({"t": "id-2"}).halt
    assert halt is not None
    assert halt.reason == "topic-replaced"


def test_a_position_of_another_mode_blocks(rig: MemoryRig) -> None:
    rig.land(0)
    rig.move(mode="append")
    halt = MemorySink(rig.writer()).observe(TOPICS).halt
    assert halt is not None
    assert (halt.reason, halt.code) == ("mode-changed", "LW-2220")
    assert "landed with mode append, the sink now has mode upsert" in halt.why


def test_an_upsert_takes_the_changed_rows_of_a_query_that_keeps_state(rig: MemoryRig) -> None:
    sink = MemorySink(rig.writer())
    sink.prepare(None, stateful=True)
    assert sink.output_mode == "update"
    sink.prepare(None, stateful=False)
    assert sink.output_mode == "append"


def test_a_checkpoint_in_the_folder_of_the_table_is_a_conflict(rig: MemoryRig) -> None:
    sink = MemorySink(rig.writer())
    sink.observe({})
    assert sink.location() == LOCATION
    found = sink.conflict(f"{LOCATION}/checkpoint", NEW, dict, {})
    assert found is not None
    assert found.finding is Finding.NESTED


def test_a_new_stream_id_for_landed_topics_is_a_conflict_and_names_the_way_out(rig: MemoryRig) -> None:
    rig.land(0)
    other, rig.table.raw = rig.position, None
    sink = MemorySink(rig.writer(), others={"before": other})
    sink.observe({})
    found = sink.conflict("/elsewhere", NEW, dict, TOPICS)
    assert found is not None
    assert found.finding is Finding.RENAMED
    assert found.next.endswith("if both are meant: give the stream a new id and a new table")
    assert sink.conflict("/elsewhere", NEW, lambda: {"before": "/c"}, TOPICS) is None, "it is declared"
    assert sink.conflict("/elsewhere", NEW, lambda: None, TOPICS) is None, "the registry does not answer"
    assert sink.conflict("/elsewhere", NEW, dict, {"t": "id-2"}) is None, "another topic"


def test_a_files_sink_observes_its_folder_and_refuses_that_of_another_stream(tmp_path: Path) -> None:
    rig = FolderRig(tmp_path / "out")
    sink = FilesStreamSink(rig.writer())
    assert sink.observe({}) == SinkState()
    assert (sink.output_mode, sink.location(), sink.notes) == ("append", None, ())
    assert sink.conflict(str(tmp_path / "out" / "checkpoint"), NEW, dict, {}) is None
    landed = sink.land(Rows(tuple(range(ROWS))), 0, Counted(), None, None)
    assert landed.position == rig.position
    assert FilesStreamSink(rig.writer()).observe(TOPICS) == SinkState(rig.position)
    other = rig.writer()
    other.stream = "another"
    with pytest.raises(Blocked, match="belongs to stream flights"):
        FilesStreamSink(other).observe({})
