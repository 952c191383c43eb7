"""Expiry asks every position first."""

from __future__ import annotations

from datetime import timedelta

import pytest
from delta_log import add, commit, remove, table

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.delta import state
from lakeward.tables.facts import Snapshot, Thresholds
from lakeward.tables.guard.positions import off_main, on_main
from lakeward.tables.observe.delta import table_facts


def at(snapshot: int, seq: int) -> Position:
    return Position(seq=1, query_id="q", batch=0, end={}, snapshot=snapshot, snapshot_seq=seq)


def test_a_position_on_main_is_fine(facts, chain):
    table = facts(chain(5), positions={"s": at(3, 3)})
    assert off_main(table, {}) == []
    assert on_main(table) == {"s": 3}


def test_a_rolled_back_table_is_found(facts, chain, now):
    snapshots = (*chain(3), Snapshot(9, 2, 4, now, "append"))
    problems = off_main(facts(snapshots, positions={"s": at(3, 3)}), {})
    assert [(each.stream, each.reason) for each in problems] == [("s", "rolled-back")]
    assert set(problems[0].document()) == {"reason", "what", "why", "next"}


def test_a_rollback_nothing_was_written_after_is_found(facts, chain):
    assert off_main(facts(chain(3), head=2, positions={"s": at(3, 3)}), {})[0].reason == "rolled-back"


def test_a_replaced_table_is_found(facts, chain, now):
    snapshots = (*chain(3), Snapshot(9, None, 4, now, "append"))
    assert off_main(facts(snapshots, positions={"s": at(3, 3)}), {})[0].reason == "table-replaced"


def test_an_expired_position_is_fine_only_if_our_expiry_saw_it_on_main(facts, chain):
    table = facts(chain(5)[3:], positions={"s": at(2, 2)})
    assert off_main(table, {"s": 2}) == []
    assert off_main(table, {})[0].reason == "expired-unseen"
    assert off_main(table, {"s": 1})[0].reason == "expired-unseen"


def test_a_position_nobody_can_read_stops_expiry(facts, chain):
    table = facts(chain(3), positions={"s": at(3, 3)})
    broken = facts(chain(3), positions={"s": at(3, 3)})
    properties = dict(broken.properties) | {key("s"): "{"}
    from dataclasses import replace

    assert off_main(replace(table, properties=properties), {})[0].reason == "position-unreadable"


def test_a_position_without_a_snapshot_needs_nothing(facts, chain):
    empty = Position(seq=0, query_id="", batch=-1, end={}, snapshot=None)
    assert off_main(facts(chain(3), positions={"s": empty}), {}) == []


@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=400)])
def test_age_proves_nothing(facts, chain, now, age):
    snapshots = (*chain(3), Snapshot(9, 2, 4, now - age, "append"))
    assert off_main(facts(snapshots, positions={"s": at(3, 3)}), {})


def test_a_restored_delta_table_is_found_by_its_log(tmp_path):
    named = {"domainMetadata": {"domain": key("s"), "configuration": at(2, 2).to_json(), "removed": False}}
    commit(tmp_path, 0, table(""), add("a", 1))
    commit(tmp_path, 1, add("b", 1))
    commit(tmp_path, 2, add("c", 1), named)

    def look():
        sizes = Thresholds(3, 2, 1)
        return table_facts("nyc.flights", state.read(tmp_path), lambda size, properties: sizes)

    assert off_main(look(), {}) == []
    restore = {"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": 1}}}
    commit(tmp_path, 3, restore, remove("c"))
    assert [(each.stream, each.reason) for each in off_main(look(), {})] == [("s", "rolled-back")]
