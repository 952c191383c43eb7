"""The contract of the commit protocol: who may not land, and what waits for a person."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from contract_rig import ROWS, Bounds, Rig, at

from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.platform.errors import Blocked, DependencyDown, Fenced

BEFORE_IT_IS_VISIBLE = ("after-check", "after-stage", "after-quarantine", "before-publish")


def _quarantine() -> None:
    pass


def test_a_driver_whose_position_was_moved_between_its_batches_is_fenced(rig: Rig) -> None:
    ours = rig.writer()
    rig.land(0, ours)
    rig.land(1)

    with pytest.raises(Fenced, match="Another writer moved its position") as fenced:
        rig.land(1, ours)

    assert fenced.value.exit_code == 75
    assert f"seq 2 by attempt {rig.position.attempt}" in fenced.value.why
    assert rig.values() == list(range(2 * ROWS))


@pytest.mark.parametrize("step", BEFORE_IT_IS_VISIBLE)
@pytest.mark.parametrize("further", [0, 1])
def test_a_zombie_that_wakes_at_any_step_lands_nothing(rig: Rig, held: ExitStack, step: str, further: int) -> None:
    """Its successor has landed the very same batch, or gone further: it is fenced, and does not count it as its own."""
    zombie = rig.writer()
    rig.land(0, zombie)

    def successor() -> None:
        for batch in range(1, 2 + further):
            rig.land(batch)

    at(held, step, successor)
    with pytest.raises(Fenced):
        rig.land(1, zombie, before_publish=_quarantine)

    with pytest.raises(Fenced):
        rig.land(1, zombie)  # it stays so
    assert rig.values() == list(range((2 + further) * ROWS))
    assert (rig.position.seq, rig.position.totals.landed) == (2 + further, (2 + further) * ROWS)


@pytest.mark.parametrize("step", BEFORE_IT_IS_VISIBLE)
def test_two_first_batches_of_one_stream_land_once(rig: Rig, held: ExitStack, step: str) -> None:
    at(held, step, lambda: rig.land(0))
    with pytest.raises(Fenced):
        rig.land(0, rig.writer(query="another"), before_publish=_quarantine)
    assert rig.values() == list(range(ROWS))


@pytest.mark.parametrize("step", BEFORE_IT_IS_VISIBLE)
def test_a_position_that_a_person_moved_meanwhile_fences_its_driver(rig: Rig, held: ExitStack, step: str) -> None:
    """Reset and import: a driver that is cut off from the registry is stopped by the sink itself."""
    rig.land(0)
    at(held, step, rig.move)

    with pytest.raises(Fenced, match="Another writer moved its position"):
        rig.land(1, before_publish=_quarantine)

    assert rig.values() == list(range(ROWS))
    assert rig.position.seq == 2


@pytest.mark.parametrize("step", [None, *BEFORE_IT_IS_VISIBLE[:-1]])  # a folder compares only the name of the new batch
def test_a_sink_created_again_blocks_its_stream_and_fences_no_driver(rig: Rig, held: ExitStack, step: Any) -> None:
    """A fenced driver ends with all its streams, and the next one only finds out the same."""
    ours = rig.writer()
    rig.land(0, ours)
    if step is None:
        rig.create_again()
    else:
        at(held, step, rig.create_again)

    with pytest.raises(Blocked, match="is gone from") as told:
        rig.land(1, ours, before_publish=_quarantine)

    assert told.value.reason == "no-position"
    assert told.value.next.startswith("give the stream a new id and a new table")
    assert rig.values() == []


def test_a_position_that_moved_since_the_checkpoint_was_judged_fences_at_the_first_batch(rig: Rig) -> None:
    """Else it took its own checkpoint for an older copy, and blocked the stream under the driver that lands it."""
    rig.land(0)
    ours = rig.writer()
    ours.expect(rig.raw)
    for batch in (1, 2):
        rig.land(batch)
    with pytest.raises(Fenced):
        rig.land(1, ours)

    first = rig.writer()
    first.expect(None)
    with pytest.raises(Fenced):
        rig.land(0, first)
    agreed = rig.writer()
    agreed.expect(rig.raw)
    assert rig.land(3, agreed).seq == 4


@pytest.mark.parametrize(
    ("query", "batch", "bounds", "reason", "said"),
    [
        ("q", 1, None, "older-checkpoint", "batch 1"),
        ("q", 2, {2: (8, 10)}, "diverged", "12"),
        ("q", 3, {3: (13, 16)}, "gap", "records 12 to 12 would be skipped"),
        ("q", 3, {3: (10, 16)}, "overlap", "records 10 to 11 would land twice"),
        ("second", 0, None, "overlap", "records 0 to 11 would land twice"),
        ("second", 2, None, "overlap", "records 8 to 11 would land twice"),
    ],
)
def test_a_batch_that_does_not_continue_blocks_with_its_range(
    rig: Rig, query: str, batch: int, bounds: Bounds | None, reason: str, said: str
) -> None:
    for each in range(3):
        rig.land(each)
    writer = rig.writer(query, bounds)

    with pytest.raises(Blocked) as blocked:
        rig.land(batch, writer)

    assert blocked.value.reason == reason
    assert said in blocked.value.why
    assert blocked.value.next
    assert "stage" not in writer.trace
    assert rig.values() == list(range(3 * ROWS))


def test_a_checkpoint_rebuilt_where_the_position_ends_lands_on(rig: Rig) -> None:
    rig.land(0)
    assert rig.land(0, rig.writer("rebuilt", {0: (ROWS, 2 * ROWS)})).seq == 2
    assert rig.values() == list(range(2 * ROWS))


def test_a_checkpoint_past_batch_0_without_a_position_blocks(rig: Rig) -> None:
    with pytest.raises(Blocked) as blocked:
        rig.land(1)
    assert blocked.value.reason == "no-position"
    assert rig.raw is None


HALT = BlockReason("wap-off", "It cannot stage", "switched off", "switch it on")


def test_what_the_sink_itself_finds_wrong_blocks_any_batch(rig: Rig) -> None:
    """Also one that would be there already: a table that was rolled back does not hold it."""
    rig.land(0)
    writer = rig.writer()
    writer.halt = HALT
    for batch in (0, 1):
        with pytest.raises(Blocked) as blocked:
            rig.land(batch, writer)
        assert blocked.value.reason == "wap-off"
    assert "stage" not in writer.trace


def test_every_attempt_is_decided_again(rig: Rig) -> None:
    """The sink was found right, the attempt failed, and meanwhile it is not right any more."""
    rig.land(0)
    writer = rig.writer()

    def meanwhile() -> None:
        writer.halt = HALT
        raise RetryCommit("the table changed")

    with pytest.raises(Blocked), ExitStack() as held:
        at(held, "before-publish", meanwhile)
        rig.land(1, writer)
    assert rig.values() == list(range(ROWS))


def test_a_topic_made_again_while_its_rows_were_read_is_refused(rig: Rig) -> None:
    """Asked when the rows were read and nobody sees them: not before, when it still was the old one."""
    rig.land(0)
    seen = list[int]()
    writer = rig.writer()
    writer.topic_ids = lambda: {"t": "id-2" if "stage" in writer.trace else "id-1"}

    with pytest.raises(Blocked) as blocked:
        rig.land(1, writer, before_publish=lambda: seen.append(1))

    assert blocked.value.reason == "topic-replaced"
    assert "id-1" in blocked.value.why and "id-2" in blocked.value.why
    assert (rig.values(), seen, "publish" in writer.trace) == (list(range(ROWS)), [], False)


def test_the_broker_is_asked_at_every_batch(rig: Rig) -> None:
    ids = {"t": "id-1"}
    writer = rig.writer(topic_ids=lambda: ids)
    rig.land(0, writer)
    ids["more"] = "id-9"
    rig.land(1, writer)
    assert rig.position.topic_ids == {"t": "id-1", "more": "id-9"}
    ids["more"] = "id-10"
    with pytest.raises(Blocked):
        rig.land(2, writer)


def test_a_broker_that_is_away_is_waited_for_by_whoever_called(rig: Rig) -> None:
    """Not by trying the batch again and again, which would stage it each time; what is lost is no record."""
    asked: list[int] = []

    def away() -> Any:
        asked.append(1)
        raise DependencyDown("Kafka does not answer", why="it is away", next="start it")

    writer = rig.writer(topic_ids=away)
    with pytest.raises(DependencyDown, match="Kafka does not answer"):
        rig.land(0, writer)
    assert (asked, writer.trace.count("stage"), rig.raw) == ([1], 1, None)
    writer.topic_ids = lambda: {"t": "id-1"}
    assert rig.land(0, writer).seq == 1
    assert rig.values() == list(range(ROWS))


def test_a_folder_names_a_step_that_there_is_for_folders(rig: Rig) -> None:
    """No operation moves the position of a folder."""
    rig.land(0)
    found = rig.writer().decide(rig.writer().load(None), replace(rig.writer().planned(1), start={"source": "3"}))
    assert isinstance(found, BlockReason)
    advised = "restore the checkpoint from a backup" in found.next
    assert advised is (type(rig).__name__ == "FolderRig")
