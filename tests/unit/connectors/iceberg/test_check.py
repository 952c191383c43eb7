"""The decision of step 1, sentence by sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.connectors.commit_protocol.ancestry import Ancestry, Finding, Link
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.follow import AlreadyLanded, BlockReason, Decision, Land, follow
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.check import TableState, check_table

HEAD = Link(77, 7, 70)
POSITION = Position(seq=5, query_id="q", batch=4, end={"s": "50"}, topic_ids={"t": "id-1"}, snapshot=77, snapshot_seq=7)
TABLE = TableState("flights", "nyc.flights", True, POSITION.to_json(), POSITION, Ancestry(Finding.MET, HEAD))
NEXT = RunningBatch("q", 5, {"s": "50"}, {"s": "60"}, {"t": "id-1"})
REPLAY = RunningBatch("q", 4, {"s": "40"}, {"s": "50"}, {"t": "id-1"})


def decide(state: TableState, batch: RunningBatch) -> Decision:
    """As the writer decides."""
    return check_table(state, "lake") or follow(state.stream, state.table, state.position, batch)


def _halt(state: TableState, batch: RunningBatch) -> BlockReason:
    decision = decide(state, batch)
    assert isinstance(decision, BlockReason), decision
    assert decision.what and decision.why and decision.next
    assert decision.error().reason == decision.reason
    return decision


def test_the_next_batch_lands_as_the_next_seq() -> None:
    assert decide(TABLE, NEXT) == Land(6)


def test_batches_that_landed_nothing_leave_no_hole() -> None:
    assert decide(TABLE, replace(NEXT, batch=9)) == Land(6)


def test_the_first_batch_needs_no_position_and_any_other_does() -> None:
    empty = replace(TABLE, raw=None, position=None, ancestry=Ancestry(Finding.MET))

    assert decide(empty, replace(NEXT, batch=0)) == Land(1)
    assert _halt(empty, NEXT).reason == "no-position"


def test_a_position_that_was_removed_is_not_taken_for_a_new_stream() -> None:
    published = Link(77, 7, 70, wap_id="flights/5/ab")
    state = replace(TABLE, raw=None, position=None, ancestry=Ancestry(Finding.MET, published, (published,)))

    assert _halt(state, replace(NEXT, batch=0)).reason == "no-position"


def test_the_same_batch_with_the_same_end_is_there_already() -> None:
    assert decide(TABLE, REPLAY) == AlreadyLanded(POSITION)


def test_the_same_batch_with_another_end_has_diverged() -> None:
    halt = _halt(TABLE, replace(REPLAY, end={"s": "45"}))

    assert halt.reason == "diverged"
    assert "50" in halt.why and "45" in halt.why


def test_a_smaller_batch_of_the_same_query_is_an_older_checkpoint() -> None:
    assert _halt(TABLE, replace(REPLAY, batch=3, end={"s": "50"})).reason == "older-checkpoint"


def test_a_rebuilt_checkpoint_lands_where_the_position_ends() -> None:
    assert decide(TABLE, replace(NEXT, query_id="rebuilt", batch=0)) == Land(6)
    assert decide(TABLE, replace(NEXT, query_id="rebuilt", batch=4)) == Land(6)


@pytest.mark.parametrize(
    ("start", "reason", "said"),
    [("55", "gap", "50 to 54"), ("45", "overlap", "45 to 49"), ("x", "discontinuous", "starts at x")],
)
def test_a_batch_that_does_not_continue_blocks_with_the_range(start: str, reason: str, said: str) -> None:
    halt = _halt(TABLE, replace(NEXT, start={"s": start}))

    assert halt.reason == reason
    assert said in halt.why


def test_another_source_does_not_continue() -> None:
    assert _halt(TABLE, replace(NEXT, start={"s": "50", "u": "-"})).reason == "discontinuous"


def test_a_topic_created_again_blocks_even_where_offsets_fit() -> None:
    halt = _halt(TABLE, replace(NEXT, topic_ids={"t": "id-2"}))

    assert halt.reason == "topic-replaced"
    assert "id-1" in halt.why and "id-2" in halt.why
    assert decide(TABLE, replace(NEXT, topic_ids={})) == Land(6), "an unknown id is no other id"
    assert decide(TABLE, replace(NEXT, topic_ids={"t": "id-1", "new": "id-9"})) == Land(6)


def test_staging_switched_off_blocks() -> None:
    assert _halt(replace(TABLE, staging=False), NEXT).reason == "wap-off"


def test_a_property_that_no_commit_can_read_blocks_with_its_words() -> None:
    halt = _halt(replace(TABLE, unreadable="commit.retry.num-retries is 'x', which is no whole number"), NEXT)
    assert (halt.reason, halt.why[:24]) == ("property-unreadable", "commit.retry.num-retries")
    assert "--actions metadata" in halt.next and halt.next.endswith("lakeward streams start flights")


@pytest.mark.parametrize("batch", [NEXT, REPLAY])
def test_a_rolled_back_table_blocks_with_the_lost_seqs(batch: RunningBatch) -> None:
    gone = Ancestry(Finding.ROLLED_BACK, Link(60, 3, 50), (), Link(60, 3, 50))

    halt = _halt(replace(TABLE, ancestry=gone, newest_seq=3), batch)

    assert halt.reason == "rolled-back"
    assert "seq 4 to 5" in halt.why
    assert "an unknown part up to seq 5" in _halt(replace(TABLE, ancestry=gone), batch).why


@pytest.mark.parametrize("head", [Link(90, 9, None), None])
def test_a_replaced_table_blocks(head: Link | None) -> None:
    assert _halt(replace(TABLE, ancestry=Ancestry(Finding.REPLACED, head)), NEXT).reason == "table-replaced"


def test_a_chain_cut_by_expiry_lands_on() -> None:
    assert decide(replace(TABLE, ancestry=Ancestry(Finding.EXPIRED, HEAD)), NEXT) == Land(6)


def test_a_batch_that_went_round_the_position_blocks_until_it_is_dealt_with() -> None:
    stray = Link(88, 8, 77, attempt="flights/6/ab")

    halt = _halt(replace(TABLE, ancestry=Ancestry(Finding.MET, stray, (stray,))), NEXT)

    assert halt.reason == "unstaged"
    assert "88" in halt.what
    by_hand = replace(stray, attempt=None, wap_id="flights/6/ab")
    halt = _halt(replace(TABLE, ancestry=Ancestry(Finding.MET, by_hand, (by_hand,))), NEXT)
    assert "published by hand" in halt.why
    other = replace(stray, attempt="other/6/ab")
    assert decide(replace(TABLE, ancestry=Ancestry(Finding.MET, other, (other,))), NEXT) == Land(6)


@pytest.mark.parametrize(
    ("state", "command"),
    [
        (replace(TABLE, ancestry=Ancestry(Finding.ROLLED_BACK, HEAD)), "CALL prod.system.set_current_snapshot("),
        (replace(TABLE, staging=False), "ALTER TABLE prod.nyc.flights SET"),
        (
            replace(TABLE, ancestry=Ancestry(Finding.MET, HEAD, (Link(78, 8, 77, attempt="flights/6/ab"),))),
            "CALL prod.system.rollback_to_snapshot(",
        ),
    ],
)
def test_a_command_names_the_catalog_of_the_deployment(state: TableState, command: str) -> None:
    blocked = check_table(state, "prod")
    assert blocked is not None
    assert command in blocked.next
