"""Several hands on one table: a second maintainer, a stream that goes on landing, a maintainer that died."""

from __future__ import annotations

import threading
from datetime import timedelta
from time import monotonic, sleep

import pytest

from lakeward.connectors.spark.connect import interrupt, new_session_id, session
from lakeward.platform.errors import DependencyDown, Refused
from lakeward.registry import leases, maintenance
from lakeward.tables import run
from lakeward.tables.guard.actor import SCOPE, hold_lease
from lakeward.tables.maintain import maintain_table
from lakeward.tables.plan import ORDER

LONG = "SELECT count(*) FROM range(100000000000) a WHERE hash(id) % 7 = 9 AND sha2(cast(id AS string), 512) = 'x'"


def test_a_second_maintainer_is_refused_and_named_who_acts(site, make_table):
    table = make_table()
    table.append(times=4)
    with hold_lease(site.registry, table.name, "the night shift"), pytest.raises(Refused, match="already") as refused:
        maintain_table(site, table.name, ["compact"])
    assert "the night shift" in refused.value.why
    assert table.files() == 8
    assert maintain_table(site, table.name, ["compact"])["actions"][0]["result"] == "done"


def test_a_lease_is_renewed_while_its_holder_lives_and_given_back(site):
    with hold_lease(site.registry, "a.t", "me", ttl=timedelta(seconds=1)):
        sleep(2)
        with pytest.raises(Refused), hold_lease(site.registry, "a.t", "you"):
            pass
    with hold_lease(site.registry, "a.t", "you"):
        pass


def test_whoever_loses_the_lease_is_stopped(site):
    stopped = threading.Event()
    with hold_lease(site.registry, "a.u", "me", ttl=timedelta(seconds=1)) as mine:
        mine.when_lost(stopped.set)
        with site.registry() as connection:
            leases.release(connection, SCOPE, ["a.u"], mine.token)
        assert stopped.wait(10)
        with pytest.raises(Refused, match="lost the lease"):
            mine.check()


def test_a_dry_run_changes_nothing(site, make_table):
    table = make_table()
    table.append(times=5)
    before = site.load(table.name).metadata_location
    with hold_lease(site.registry, table.name, "somebody"):  # it does not even need the lease
        seen = run.maintain(site.runtime, site.project, table.name, dry_run=True)
    assert {each["action"] for each in seen["plan"]["actions"]} == {"compact", "expire"}
    assert seen["actions"] == []
    assert site.load(table.name).metadata_location == before
    with site.registry() as connection:
        assert maintenance.newest_actions(connection, table.name) == []
        assert maintenance.newest_plan(connection, table.name) is None


def test_maintenance_beside_a_stream_that_goes_on_landing(site, make_table, appending):
    table = make_table()
    table.append(times=4)
    before = table.rows()
    with appending(table) as landed:
        results = [each for _ in range(3) for each in maintain_table(site, table.name, ORDER)["actions"]]
    assert {each["result"] for each in results} == {"done"}, results
    assert {each["action"] for each in results} >= {"compact", "expire"}
    assert table.rows() == before + sum(landed)


def test_the_statement_of_a_maintainer_that_died_is_stopped_first(site, make_table):
    from pyspark.errors import PySparkException

    table = make_table()
    table.append(times=4)
    dead, started, errors = new_session_id(), threading.Event(), []

    def die() -> None:
        with session(site.runtime, session_id=dead) as spark:
            started.set()
            try:
                spark.sql(LONG).collect()
            except PySparkException as error:
                errors.append(str(error))

    running = threading.Thread(target=die)
    running.start()
    assert started.wait(60)
    with site.registry() as connection:
        maintenance.begin_action(
            connection, plan="p", table=table.name, action="compact", session_id=dead, before={"snapshot_id": 1}
        )
        leases.take(connection, SCOPE, table.name, "dead", "a dead host", timedelta(milliseconds=1))
    sleep(2)  # until the statement really runs
    begun = monotonic()
    done = maintain_table(site, table.name, ["compact"])
    running.join(60)
    assert not running.is_alive()
    assert monotonic() - begun < 60
    assert errors
    assert "CANCEL" in errors[0].upper() or "SESSION" in errors[0].upper()
    assert done["actions"][0]["result"] == "done", done
    with site.registry() as connection:
        ledger = maintenance.newest_actions(connection, table.name)
    assert [row["result"] for row in ledger] == ["done", "failed"]
    assert "its process died" in ledger[1]["why"]


def test_interrupting_a_session_the_server_forgot_is_no_error(site):
    assert interrupt(site.runtime, new_session_id()) == []


def test_a_server_that_is_not_there_is_reported_at_once(site):
    away = site.runtime.model_copy(update={"connect": "127.0.0.1:1"})
    with pytest.raises(DependencyDown, match="does not answer"), session(away):
        pass
