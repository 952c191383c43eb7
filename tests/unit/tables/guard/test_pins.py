"""Who keeps history: each clamp alone decides whether an expiry may take a snapshot."""

from __future__ import annotations

from datetime import timedelta

from lakeward.connectors.commit_protocol.position import Position
from lakeward.tables.facts import Ref, Snapshot
from lakeward.tables.guard import pins


def position(seq: int, snapshot: int | None = None) -> Position:
    return Position(seq=seq, query_id="q", batch=seq, end={}, snapshot=snapshot, snapshot_seq=snapshot or 0)


def test_nothing_younger_than_twice_the_longest_batch_goes(now):
    assert pins.batches(0, now).at == now - pins.STAGED_FLOOR
    assert pins.batches(400, now).at == now - timedelta(seconds=800)


def test_the_batch_a_stream_staged_and_did_not_publish_stays(facts, chain, now):
    old = now - timedelta(hours=5)
    staged = Snapshot(99, 3, 4, old, "append", {"wap.id": "s/8/nonce"})
    table = facts((*chain(3), staged), head=3, positions={"s": position(7, 3)})
    assert [clamp.at for clamp in pins.staged(table, now)] == [old]


def test_the_first_batch_of_a_stream_stays_too(facts, chain, now):
    old = now - timedelta(hours=5)
    staged = Snapshot(99, 3, 4, old, "append", {"wap.id": "s/1/nonce"})
    table = facts((*chain(3), staged), head=3, positions={"other": position(7, 3)})
    assert [(clamp.who, clamp.at) for clamp in pins.staged(table, now)] == [("stream s", old)]


def test_what_was_staged_for_a_published_seq_pins_nothing(facts, chain, now):
    left = Snapshot(99, 3, 4, now - timedelta(hours=5), "append", {"wap.id": "s/7/nonce"})
    assert pins.staged(facts((*chain(3), left), head=3, positions={"s": position(7, 3)}), now) == []


def test_a_staged_batch_pins_for_three_days_at_most(facts, chain, now):
    left = Snapshot(99, 3, 4, now - timedelta(hours=73), "append", {"wap.id": "s/8/nonce"})
    assert pins.staged(facts((*chain(3), left), head=3, positions={"s": position(7, 3)}), now) == []


def test_a_running_streams_newest_publication_stays_for_a_bounded_time(facts, chain, now):
    table = facts(chain(5), positions={"s": position(2, 2)})
    assert [clamp.at for clamp in pins.publications(table, {"s"}, now)] == [chain(5)[1].at]
    assert pins.publications(table, set(), now) == []
    assert pins.publications(table, {"s"}, now + timedelta(hours=73)) == []


def test_the_first_unverified_snapshot_stays(facts, chain):
    table = facts(chain(5), refs={"verified": Ref("branch", 2)})
    clamp = pins.unverified(table, None, checked=True)
    assert clamp is not None
    assert clamp.at <= chain(5)[2].at


def test_the_results_stand_in_for_a_lost_branch(facts, chain):
    clamp = pins.unverified(facts(chain(5)), 3, checked=True)
    assert clamp is not None
    assert clamp.at == chain(5)[2].at


def test_a_table_never_checked_keeps_all_history_if_it_has_a_suite(facts, chain):
    clamp = pins.unverified(facts(chain(5)), None, checked=True)
    assert clamp is not None
    assert clamp.at == chain(5)[0].at
    assert pins.unverified(facts(chain(5)), None, checked=False) is None


def test_verified_off_main_keeps_all_history(facts, chain, now):
    stray = Snapshot(9, 1, 6, now, "append")
    clamp = pins.unverified(facts((*chain(5), stray), head=5, refs={"verified": Ref("branch", 9)}), None, checked=True)
    assert clamp is not None
    assert clamp.at == chain(5)[0].at


def test_the_proven_version_of_a_delta_table_stays_for_a_bounded_time(facts, chain, now):
    table, line = facts(chain(5)), chain(5)
    on, none = pins.unproven(table, 3, now), pins.unproven(table, None, now)
    assert on is not None and none is not None
    assert (on.at, none.at) == (line[2].at - pins.REWRITE, line[0].at - pins.REWRITE)
    assert pins.unproven(table, 3, line[2].at + pins.PROVEN_LIMIT + timedelta(seconds=1)) is None


def test_the_base_of_a_running_rewrite_stays(facts, chain):
    found = pins.running_rewrites(facts(chain(5)), [{"before": {"snapshot_id": 2}}, {"before": None}])
    assert [clamp.at for clamp in found] == [chain(5)[1].at]
