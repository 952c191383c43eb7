"""The contract of the commit protocol: what lands, in which order, and how it is counted.

Every sink with a position lands through the same frame (`TableWriter`), so its promises are proven here, once, without
Spark. The tests of a sink prove the rest: how it stages, how its publication is refused, how it reads its position.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from contract_rig import ROWS, Died, Rig, at, die

from lakeward.connectors.commit_protocol.batch import Counted
from lakeward.connectors.commit_protocol.position import Skip, Totals
from lakeward.platform.errors import DependencyDown

NOTHING_NEW = {1: (ROWS, ROWS)}
"""A batch that moves no offset: a watermark passed, and Spark runs one without data."""


def test_a_batch_is_decided_staged_quarantined_and_published_in_this_order(rig: Rig) -> None:
    writer = rig.writer()

    def topics() -> dict[str, str]:
        writer.trace.append("topics")
        return {"t": "id-1"}

    writer.topic_ids = topics
    rig.land(0, writer, before_publish=lambda: writer.trace.append("quarantine"))

    asked = [step for step in writer.trace if step != "load"]
    assert writer.trace[0] == "load"
    assert asked == ["stage", "topics", "quarantine", "publish", "release"]


def test_batches_land_in_order_and_the_position_counts_them(rig: Rig) -> None:
    writer = rig.writer()
    landed = [rig.land(batch, writer, complete_through=f"2026-01-0{batch + 1}T00:00:00Z") for batch in range(3)]

    assert rig.values() == list(range(3 * ROWS))
    assert [(each.seq, each.counts.landed, each.already, each.written) for each in landed] == [
        (1, ROWS, False, True), (2, ROWS, False, True), (3, ROWS, False, True),
    ]  # fmt: skip
    assert [(each.start, each.end) for each in landed[:2]] == [
        ({"source": "0"}, {"source": "4"}), ({"source": "4"}, {"source": "8"}),
    ]  # fmt: skip
    position = rig.position
    assert position == landed[-1].position
    assert (position.seq, position.query_id, position.batch, position.generation) == (3, "q", 2, 3)
    assert (position.begin, position.end) == ({"source": "0"}, {"source": "12"})
    assert (position.mode, position.topic_ids) == (writer.mode, {"t": "id-1"})
    assert position.complete_through == "2026-01-03T00:00:00Z"
    assert position.attempt.startswith("flights/3/")
    assert position.at.endswith("Z")


def test_what_the_position_knew_is_carried_on(rig: Rig) -> None:
    """Columns of newer generations, skips, topics that this batch has nothing of, and how far the table is final."""
    rig.land(0)
    kept: dict[str, Any] = {
        "skips": (Skip(start={"source": "1"}, end={"source": "2"}),),
        "added": {"column": 9},
        "topic_ids": {"t": "id-1", "older": "id-0"},
        "complete_through": "2026-01-01T00:00:00Z",
    }
    rig.move(**kept)

    rig.land(1)

    position = rig.position
    assert (position.skips, position.added) == (kept["skips"], kept["added"])
    assert (position.topic_ids, position.complete_through) == (kept["topic_ids"], kept["complete_through"])
    assert (position.seq, position.begin) == (3, {"source": "0"})


def test_landed_is_what_was_staged_and_totals_add_up(rig: Rig) -> None:
    counted = Counted(consumed=ROWS, quarantined=1)
    first = rig.land(0, values=(0, 1), counted=counted)
    second = rig.land(1, values=(4,), counted=counted)

    assert first.counts == Totals(consumed=4, landed=2, quarantined=1, filtered=1)
    assert second.counts == Totals(consumed=4, landed=1, quarantined=1, filtered=2)
    assert (first.landed, first.filtered, second.filtered) == (2, 1, 2)
    assert second.totals == rig.position.totals == Totals(consumed=8, landed=3, quarantined=2, filtered=3)


def test_without_a_count_consumed_is_what_came_out(rig: Rig) -> None:
    landed = rig.land(0, values=(0, 1))

    assert rig.position.totals == Totals(consumed=2, landed=2)
    assert landed.filtered is None, "how many the transform dropped is not known then"


def test_a_batch_without_rows_that_advances_nothing_leaves_the_sink_as_it_was(rig: Rig) -> None:
    first, seen = rig.land(0), list[int]()
    before = rig.raw

    still = rig.land(1, rig.writer(bounds=NOTHING_NEW), before_publish=lambda: seen.append(1))

    assert (still.seq, still.written, still.already, still.snapshot) == (1, False, False, None)
    assert (still.position, still.totals, seen) == (first.position, first.totals, [])
    assert rig.raw == before
    assert rig.land(1).seq == 2, "the next batch follows"


def test_offsets_that_advance_without_rows_are_published(rig: Rig) -> None:
    rig.land(0)
    landed = rig.land(1, values=(), counted=Counted(consumed=ROWS))

    assert (landed.seq, landed.written, landed.counts.landed, landed.counts.filtered) == (2, True, 0, ROWS)
    assert rig.position.end == {"source": "8"}
    assert rig.values() == list(range(ROWS))


def test_rows_that_advance_no_offset_are_published(rig: Rig) -> None:
    """A window that closes: its rows come in a batch of no data."""
    rig.land(0)
    landed = rig.land(1, rig.writer(bounds=NOTHING_NEW), values=(77,))

    assert (landed.seq, landed.written) == (2, True)
    assert rig.values() == [0, 1, 2, 3, 77]


def test_bad_rows_that_advance_no_offset_are_counted(rig: Rig) -> None:
    rig.land(0)
    seen = list[int]()
    landed = rig.land(
        1, rig.writer(bounds=NOTHING_NEW), (), counted=Counted(2, 2), before_publish=lambda: seen.append(1)
    )

    assert (landed.seq, rig.position.totals.quarantined, seen) == (2, 2, [1])


def test_a_first_batch_without_anything_sets_the_first_position(rig: Rig) -> None:
    """Otherwise the first batch with records, which is not batch 0, would have nothing to continue from."""
    empty = {0: (0, 0), 1: (0, ROWS)}

    assert rig.land(0, rig.writer(bounds=empty)).written
    assert rig.land(1, rig.writer(bounds=empty)).seq == 2
    assert rig.values() == list(range(ROWS))


def test_a_batch_that_runs_again_lands_once(rig: Rig) -> None:
    rig.land(0)
    before, again, seen = rig.raw, rig.writer(), list[int]()

    landed = rig.land(0, again, before_publish=lambda: seen.append(1))

    assert (landed.already, landed.seq, landed.counts, landed.totals.landed) == (True, 1, Totals(), ROWS)
    assert landed.position == rig.position
    assert (rig.raw, seen) == (before, []), "nothing is written, and no bad row is kept a second time"
    assert "stage" not in again.trace
    assert [rig.land(1, again).seq, rig.land(2).seq] == [2, 3]
    assert rig.values() == list(range(3 * ROWS))


@pytest.mark.parametrize(("stateful", "executed"), [(True, 1), (None, 1), (False, 0)])
def test_a_batch_with_state_that_runs_again_is_executed(rig: Rig, stateful: bool | None, executed: int) -> None:
    """Its state store commits by being executed; if that is not known, it is taken to have one."""
    rig.land(0)
    again = rig.writer(stateful=stateful)

    assert rig.land(0, again).already
    assert again.trace.count("execute") == executed


def test_a_batch_whose_answer_was_lost_is_found_to_have_landed(rig: Rig, held: ExitStack) -> None:
    writer = rig.writer(stateful=True)
    lost = at(held, "after-publish", _lose)

    landed = rig.land(0, writer, counted=Counted(ROWS))

    assert lost == [1]
    assert (landed.already, landed.seq, landed.counts.landed, landed.counts.consumed) == (False, 1, ROWS, ROWS)
    assert rig.values() == list(range(ROWS))
    assert (writer.trace.count("stage"), writer.trace.count("execute")) == (1, 0), "staging it has executed it"
    assert rig.land(1, writer).seq == 2


def test_a_batch_is_asked_about_by_what_was_tried_of_it_alone(rig: Rig) -> None:
    """What a writer has tried of one batch does not stand in for having executed the next."""
    writer = rig.writer(stateful=True)
    rig.land(0, writer)
    rig.land(1)
    writer.expect(rig.raw)

    assert rig.land(1, writer).already
    assert writer.trace.count("execute") == 1


STEPS = ("after-check", "after-stage", "after-quarantine", "before-publish", "after-publish", "after-land")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("batch", [0, 1])
def test_a_process_that_dies_at_any_step_lands_its_batch_once(rig: Rig, held: ExitStack, step: str, batch: int) -> None:
    for before in range(batch):
        rig.land(before)
    kept: set[int] = set()  # as the quarantine: by source position, so that it takes the same row once
    at(held, step, die)
    with pytest.raises(Died):
        rig.land(batch, before_publish=lambda: kept.add(batch))
    there = step in ("after-publish", "after-land")
    assert rig.values() == list(range((batch + there) * ROWS)), "all of it or nothing"

    landed = rig.land(batch, before_publish=lambda: kept.add(batch))

    assert landed.already is there
    assert rig.land(batch + 1).seq == batch + 2
    assert rig.values() == list(range((batch + 2) * ROWS))
    assert kept == {batch}
    assert rig.position.totals.landed == (batch + 2) * ROWS


@pytest.mark.parametrize("step", STEPS)
def test_what_a_batch_held_is_released_however_it_ends(rig: Rig, held: ExitStack, step: str) -> None:
    writer = rig.writer()
    at(held, step, die)
    with pytest.raises(Died):
        rig.land(0, writer, before_publish=lambda: None)
    assert writer.trace[-1] == "release"
    rig.land(0, again := rig.writer())
    assert again.trace.count("release") == 1


def _lose() -> None:
    raise DependencyDown("The catalog does not answer", why="the connection was lost")
