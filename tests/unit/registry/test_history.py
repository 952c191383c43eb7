from __future__ import annotations

from datetime import timedelta

from sqlalchemy import text

from lakeward.registry import batches, changes, events, maintenance, observations, operations, restarts, verifications
from lakeward.registry.purge import TABLES, purge, times
from lakeward.spec.model.settings import Keep

BATCH = {"stream": "flights", "query_id": "q", "batch_id": 1, "generation": 1, "seq": 2, "consumed": 10, "landed": 9}


def test_a_batch_said_twice_is_one_batch_marked_replayed(registry):
    batches.record(registry, **BATCH)
    batches.record(registry, **BATCH)
    (found,) = batches.newest(registry, "flights")
    assert found.replayed
    assert batches.totals(registry, "flights")["consumed"] == 10


def test_the_newest_batches_tell_how_long_they_take(registry):
    for number in range(4):
        batches.record(registry, **BATCH | {"batch_id": number}, duration_s=float(number))
    batches.record(registry, **BATCH | {"batch_id": 9}, duration_s=99.0, replayed=True)
    assert sorted(batches.durations(registry, ["flights", "none"], most=4)["flights"]) == [0.0, 1.0, 2.0, 3.0]
    assert len(batches.durations(registry, ["flights"], most=2)["flights"]) == 2
    assert batches.durations(registry, ["none"]) == {"none": []}


def test_observations_keep_what_is_not_said_again(registry):
    observations.record(registry, "flights", batch_id=4, query_state="running")
    observations.record(registry, "flights", query_state="failed", error={"class": "poison"})
    found = observations.latest(registry)["flights"]
    assert (found.batch_id, found.query_state) == (4, "failed")


def test_the_timeline_reads_oldest_first(registry):
    for number in range(3):
        events.record(registry, "stream", "flights", "restart", f"restarted {number}", attempt=number)
    assert [item.text for item in events.newest(registry, "stream", "flights", limit=2)] == [
        "restarted 1",
        "restarted 2",
    ]


def test_the_newest_failure_says_whether_the_next_attempt_is_due(registry):
    for delay in (timedelta(seconds=-1), timedelta(minutes=1)):
        restarts.record(registry, driver="demo", stream=None, failure_class="infra", error="x", attempt=1, delay=delay)
    assert not restarts.newest(registry)["demo", None].due
    assert restarts.count_24h(registry) == {("demo", None): 2}


def test_an_operation_is_open_until_it_ends(registry):
    number = operations.request(registry, "flights", "restart", author="ann", comment="new broker")
    assert operations.newest(registry, "flights")[0].result is None
    operations.finish(registry, number, "done", "restarted in 21 s")
    assert operations.newest(registry, "flights")[0].result == "done"


def test_the_ledger_shows_what_was_begun_and_never_ended(registry):
    number = maintenance.begin_action(
        registry, plan="p", table="nyc.flights", action="compact", session_id="s", before={"files": 9}
    )
    assert [item["id"] for item in maintenance.unfinished_actions(registry, "nyc.flights")] == [number]
    maintenance.finish_action(registry, number, result="done", verified=True, after={"files": 1})
    assert maintenance.unfinished_actions(registry, "nyc.flights") == []


def test_a_table_is_due_since_its_first_plan_nothing_followed(registry):
    maintenance.record_plan(registry, "p1", "nyc.flights", {})
    maintenance.record_plan(registry, "p2", "nyc.done", {})
    registry.execute(text("UPDATE plans SET at = now() - interval '3 hours'"))
    maintenance.record_plan(registry, "p3", "nyc.flights", {})
    maintenance.begin_action(registry, plan="p2", table="nyc.done", action="compact", session_id=None, before={})
    found = maintenance.due_since(registry)
    assert set(found) == {"nyc.flights"}
    assert found["nyc.flights"] == maintenance.newest_plan(registry, "nyc.flights")["at"] - timedelta(hours=3)


def _age(registry, table: str, column: str) -> None:
    registry.execute(text(f"UPDATE {table} SET {column} = now() - interval '10 years'"))


def test_everything_that_grows_has_a_keep_time(registry):
    growing = {"batches", "events", "restarts", "operations", "facts", "plans", "actions", "verifications", "changes"}
    growing |= {"incidents", "waivers", "check_runs", "lag_history", "launches"}
    assert set(TABLES) == growing
    assert all(times(Keep())[name] > timedelta() for name in growing)


def test_the_purge_removes_what_is_old_and_nothing_else(registry):
    batches.record(registry, **BATCH)
    events.record(registry, "stream", "flights", "start", "started")
    changes.record(registry, "stream", "flights", "reset", author="ann")
    maintenance.record_facts(registry, "nyc.flights", 1, {"files": 3})
    _age(registry, "batches", "committed_at")
    _age(registry, "facts", "at")
    assert purge(registry) == {"batches": 1, "facts": 1}
    assert events.newest(registry, "stream", "flights")
    assert changes.newest(registry, "stream", "flights")


def test_the_purge_keeps_the_proof_the_verified_branch_is_repaired_from(registry):
    run = {"table": "nyc.flights", "suite": "s", "scope": "increment", "verdict": "pass"}
    verifications.record(registry, {**run, "run": "old", "to_snapshot": 7, "verified_snapshot": 7}, [])
    _age(registry, "verifications", "at")
    verifications.record(registry, {**run, "run": "new", "verdict": "error"}, [])
    verifications.record(
        registry, {**run, "run": "held", "verdict": "hold", "to_snapshot": 9, "verified_snapshot": 7}, []
    )
    assert purge(registry) == {}, "held for longer than results are kept: the proof is as old as that"
    assert [proof["run"] for proof in verifications.proofs(registry, "nyc.flights")] == ["old"]


def test_failing_rows_are_kept_for_less_long_than_what_the_checks_found(registry):
    run = {"table": "nyc.flights", "suite": "s", "scope": "increment", "verdict": "hold"}
    check = {"check": "c", "expectation": "e", "severity": "info", "state": "fail", "observed": {"rows": 3}}
    for name, days in (("old", 40), ("new", 20)):
        verifications.record(registry, {**run, "run": name}, [{**check, "sample": [{"a": 1}]}])
        registry.execute(text("UPDATE verifications SET at = now() - make_interval(days => :d) WHERE run = :r"),
                         {"d": days, "r": name})  # fmt: skip
    assert purge(registry) == {"samples": 1}
    assert [verifications.checks_of(registry, name)[0]["sample"] for name in ("old", "new")] == [[], [{"a": 1}]]
    kept = verifications.checks_of_runs(registry, ["old", "new"])
    assert {name: (each["check"], each["observed"]) for name, (each,) in kept.items()} == {
        "old": ("c", {"rows": 3}),
        "new": ("c", {"rows": 3}),
    }
    assert purge(registry) == {}
