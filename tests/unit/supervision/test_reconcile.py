from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import text, update

from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Launch
from lakeward.registry import drivers, events, incidents, leases, operations, restarts, streams
from lakeward.registry.schema import generations
from lakeward.spec.model.settings import Driver, Settings
from lakeward.spec.model.stream import Limits
from lakeward.spec.model.types import DriverName, SparkMaster
from lakeward.supervision import dead_mans_switch, observe
from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.health import State
from lakeward.supervision.reconcile import reconcile_once
from lakeward.supervision.startup_grace import StartupGracePeriod


@pytest.fixture
def once(connected, runtime, backend):
    """One pass without jitter; the server of the tests has just been started, which is no outage here."""

    def run(**options):
        options = {"holder": "test", "chance": lambda: 0.0, "startup_grace_s": 0.0, **options}
        return reconcile_once(connected, runtime, backend, **options)

    return run


def driver(connected, name="nyc"):
    with connected() as connection:
        return drivers.find(connection, name)


def alive(backend):
    return [job for job in backend.find() if job.life is Life.ALIVE]


def test_a_wanted_stream_is_launched_once_and_becomes_healthy(once, deployed, connected, backend, eventually):
    deployed("flights", "alerts")
    first = once()
    assert first.launched == ["nyc"]
    assert first.states["flights"].state is State.STARTING
    assert once().launched == []
    assert len(alive(backend)) == 1
    eventually(lambda: once().states["flights"].state is State.HEALTHY)
    assert len(alive(backend)) == 1
    with connected() as connection:
        assert streams.get(connection, "flights").state == "healthy"


def test_a_driver_with_executors_is_the_same_process_and_is_shown_with_its_cluster(once, deployed, connected, backend):
    deployed("flights")
    big = Driver(backend="standalone", master=SparkMaster("spark://h:7077"))
    assert once(settings=Settings(drivers={DriverName("nyc"): big})).launched == ["nyc"]
    [job] = alive(backend)
    row = driver(connected)
    assert (row.backend, row.handle) == ("standalone", job.handle)
    assert Launch.read(Path(job.log) / "launch.json").conf["spark.master"] == "spark://h:7077"


BY_CONNECTION = Settings.model_validate({"drivers": {"nyc": {"backend": "standalone", "connection": "prod"}}})
PASS = {"holder": "test", "chance": lambda: 0.0, "startup_grace_s": 0.0, "settings": BY_CONNECTION}


def test_a_driver_is_launched_on_the_cluster_of_its_connection(deployed, connected, backend, runtime, tmp_path):
    deployed("flights")
    here = runtime.model_copy(update={"connections": tmp_path / "connections"})
    file = here.connections / "airflow" / "spark" / "prod.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"conn_type": "spark", "host": "spark://h", "port": 7077}))
    assert reconcile_once(connected, here, backend, **PASS).launched == ["nyc"]
    [job] = alive(backend)
    assert Launch.read(Path(job.log) / "launch.json").conf["spark.master"] == "spark://h:7077"


def test_a_stream_whose_driver_has_no_connection_is_blocked_and_starts_when_it_is_there(
    deployed, connected, backend, runtime, tmp_path
):
    deployed("flights")
    here = runtime.model_copy(update={"connections": tmp_path / "connections"})
    assert reconcile_once(connected, here, backend, **PASS).launched == []
    with connected() as connection:
        failure = restarts.newest(connection)["nyc", None]
        blocked = streams.get(connection, "flights").blocked
    assert "LW-2581" in failure.error and "known connections: none" in failure.error
    assert failure.failure_class == "config"
    assert (blocked["reason"], blocked["why"]) == ("config", "known connections: none")
    assert blocked["next"].endswith("; then: lakeward streams start flights")
    assert reconcile_once(connected, here, backend, **PASS).done == (), "it is not tried again by itself"

    file = here.connections / "airflow" / "spark" / "prod.json"
    file.parent.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as master:  # a master that does not answer is waited for
        host, port = master.getsockname()
        file.write_text(json.dumps({"conn_type": "spark", "host": f"spark://{host}", "port": port}))
        with connected() as connection:
            streams.set_desired(connection, ["flights"], "running")
            operations.request(connection, "flights", "start", author="ada")
        assert reconcile_once(connected, here, backend, **PASS).launched == ["nyc"]


def test_a_killed_driver_is_buried_and_launched_with_a_new_token(
    once, deployed, connected, backend, eventually, sigkill
):
    deployed("flights")
    once()
    eventually(lambda: once().states["flights"].state is State.HEALTHY)
    before = driver(connected)
    sigkill(before.handle["pid"])
    eventually(lambda: not alive(backend))
    summary = once()
    assert [item.act for item in summary.done] == ["finalized", "launched"]
    after = driver(connected)
    assert after.token != before.token
    assert summary.states["flights"].state is State.RESTARTING
    with connected() as connection:
        failure = restarts.newest(connection)["nyc", None]
    assert failure.failure_class == "infra"
    assert failure.attempt == 1
    eventually(lambda: once().states["flights"].state is State.HEALTHY)


def test_back_off_is_waited_out_and_a_person_may_cut_it_short(once, deployed, connected, runtime, backend, eventually):
    deployed("flights")
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    (runtime.drivers / "mode").write_text("crash")
    once()
    eventually(lambda: not alive(backend))
    summary = once(chance=lambda: 0.999)
    assert [item.act for item in summary.done] == ["finalized"]
    assert "Connection refused" in summary.done[0].text
    assert summary.done[0].fields["failure_class"] == "dependency"
    assert summary.after_s > 5
    assert once().done == ()
    (runtime.drivers / "mode").unlink()
    with connected() as connection:
        operations.request(connection, "flights", "start", author="ada")
    assert once().launched == ["nyc"]


def test_a_configuration_error_waits_for_a_person_and_spares_the_neighbours(
    once, deployed, connected, runtime, backend, eventually
):
    deployed("flights", "alerts")
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    (runtime.drivers / "mode").write_text("config")
    once()
    eventually(lambda: not alive(backend))
    (runtime.drivers / "mode").unlink()
    summary = once()
    assert [item.act for item in summary.done] == ["finalized", "launched"]
    assert summary.states["flights"].state is State.BLOCKED
    assert "no such column: x" in summary.states["flights"].why
    eventually(lambda: once().states["alerts"].state is State.HEALTHY)


def test_a_starter_that_died_before_it_recorded_the_process_leaves_one_driver(
    once, deployed, connected, backend, runtime, eventually
):
    deployed("flights")
    once()
    row = driver(connected)
    with connected() as connection:
        connection.execute(text("UPDATE drivers SET handle = NULL, state = 'launching'"))
    for file in runtime.drivers.rglob("process.json"):
        file.unlink()
    summary = once()
    assert [item.act for item in summary.done] == ["adopted"]
    assert driver(connected).handle == row.handle
    assert len(alive(backend)) == 1


def test_nothing_is_launched_while_the_lease_of_a_vanished_driver_is_live(once, deployed, connected, backend):
    deployed("flights")
    with connected() as connection:
        from datetime import timedelta

        leases.take(connection, "driver", "nyc", "of-somebody", "elsewhere", timedelta(minutes=5))
    summary = once()
    assert summary.done == ()
    assert summary.after_s is not None


def test_a_driver_on_another_host_is_never_restarted_from_here(once, deployed, connected, backend):
    deployed("flights")
    with connected() as connection:
        drivers.record_intent(connection, "nyc", token="t", previous=None, backend="local")
        handle = {"pid": 1, "start_time": 1.0, "boot_id": "b", "host": "elsewhere"}
        drivers.started(connection, "nyc", "t", handle=handle, host="elsewhere", log="")
    summary = once()
    assert summary.done == ()
    assert summary.states["flights"].state is State.UNKNOWN
    assert "its process runs on host elsewhere, which cannot be asked from here" in summary.states["flights"].why


def test_a_hung_child_left_behind_is_killed_before_the_next_launch(once, deployed, connected, backend, eventually):
    deployed("flights")
    once()
    eventually(lambda: once().states["flights"].state is State.HEALTHY)
    pid = driver(connected).handle["pid"]
    os.kill(pid, signal.SIGSTOP)  # it lives, and it does not answer: not yet reason enough
    assert once().done == ()
    os.kill(pid, signal.SIGCONT)


def test_a_frozen_driver_is_dumped_killed_and_replaced(once, deployed, connected, backend, eventually):
    deployed("flights")
    once()
    eventually(lambda: once().states["flights"].state is State.HEALTHY)
    before = driver(connected)

    def frozen() -> bool:
        """Whether it is stopped as if it had been silent for 65 s; one stopped in a transaction keeps its locks."""
        os.kill(before.handle["pid"], signal.SIGSTOP)
        eventually(lambda: [job.stopped for job in alive(backend)] == [True])
        with suppress(DependencyDown), connected() as connection:
            connection.execute(text("SET LOCAL lock_timeout = '2s'"))
            connection.execute(text("UPDATE drivers SET heartbeat = now() - interval '65 seconds'"))
            connection.execute(text("UPDATE leases SET until = now() - interval '50 seconds'"))
            return True
        os.kill(before.handle["pid"], signal.SIGCONT)
        return False

    eventually(frozen)
    summary = once()
    assert [item.act for item in summary.done] == ["killed", "finalized", "launched"]
    assert "its process is stopped (SIGSTOP, or a suspended host) and sent no heartbeat for" in summary.done[0].text
    assert "in state T" in Path(str(summary.done[0].fields["dump"])).read_text()
    after = driver(connected)
    assert after.token != before.token
    assert [(job.token, job.stopped) for job in alive(backend)] == [(after.token, False)]
    eventually(lambda: once().states["flights"].state is State.HEALTHY)


def test_a_driver_that_lands_nothing_is_ended_started_again_and_its_hang_has_a_name(
    once, deployed, connected, backend, runtime, eventually
):
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    (runtime.drivers / "mode").write_text("stuck")
    deployed("flights")
    with connected() as connection:
        spec = {"id": "flights", "owner": "ops", "limits": {"stall": "1s"}}
        connection.execute(generations.update().values(spec=spec))
    once()
    first = driver(connected)
    eventually(lambda: "killed" in [item.act for item in once().done])
    eventually(lambda: driver(connected).token != first.token or once().launched == ["nyc"])
    with connected() as connection:
        failure = restarts.newest(connection)["nyc", None]
    assert failure.failure_class == "infra"
    assert failure.error.startswith("Driver nyc hung in a batch: no batch of flights for")


def test_limits_and_trigger_of_the_running_generation_decide_about_a_stall(connected, deployed) -> None:
    deployed("flights", "hourly")
    with connected() as connection:
        spec = {"limits": {"stall": "5m"}, "trigger": {"every": "1h"}}
        connection.execute(generations.update().where(generations.c.stream == "hourly").values(spec=spec))
        facts = observe.read(connection)
    sights = {name: observe.health_input(facts, {}, facts.by_id[name]) for name in ("flights", "hourly")}
    assert {name: each.stall_after_s for name, each in sights.items()} == {"flights": 300.0, "hourly": 7200.0}


def test_drivers_that_ran_on_while_nobody_looked_are_kept_and_the_timeline_says_so(
    once, deployed, connected, backend, eventually
):
    deployed("flights")
    once()
    before = driver(connected)
    with connected() as connection:
        connection.execute(text("UPDATE ticks SET at = now() - interval '7 minutes'"))
    once()
    once()
    assert driver(connected).token == before.token
    with connected() as connection:
        kept = [item for item in events.newest(connection, "driver", "nyc") if item.kind == "adopted"]
    assert len(kept) == 1
    assert "it ran on while no reconcile pass has succeeded for 7 min" in kept[0].text


def test_stopping_ends_the_driver_and_starting_brings_it_back(once, deployed, connected, backend, eventually):
    deployed("flights")
    once()
    eventually(lambda: once().states["flights"].state is State.HEALTHY)
    with connected() as connection:
        streams.set_desired(connection, ["flights"], "stopped")
    eventually(lambda: not alive(backend))
    assert once().done == ()
    assert once().states["flights"].state is State.STOPPED
    with connected() as connection:
        streams.set_desired(connection, ["flights"], "running")
    assert once().launched == ["nyc"]


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ({"stall": "7m", "lag_records": 5, "of_a_newer_version": {"x": 1}}, Limits(stall="7m", lag_records=5)),
        ({"stall": "7m", "freshness": {"p99": "1m"}}, Limits(stall="7m")),
        ("generous", Limits()),
    ],
)
def test_limits_of_a_newer_version_are_read_as_far_as_they_are_understood_and_end_no_pass(
    once, deployed, connected, said, understood
):
    deployed("flights", "alerts", desired="stopped")
    with connected() as connection:
        spec = {"id": "flights", "owner": "ops", "limits": said}
        connection.execute(update(generations).where(generations.c.stream == "flights").values(spec=spec))
        assert observe.read(connection).limits("flights") == understood
    assert {name: each.state for name, each in once().states.items()} == dict.fromkeys(
        ("flights", "alerts"), State.STOPPED
    )


def test_two_passes_at_once_are_one(once, deployed, connected):
    deployed("flights")
    from datetime import timedelta

    with connected() as connection:
        leases.take(connection, "reconcile", "streams", "t", "scheduler-2", timedelta(minutes=1))
    summary = once()
    assert summary.held_by == "scheduler-2"
    assert summary.done == ()


def test_a_lost_registry_calms_the_next_pass(once, deployed, connected, runtime):
    deployed("flights")
    StartupGracePeriod(runtime.drivers).lost()
    summary = once(startup_grace_s=15.0)
    assert summary.done == ()
    assert "drivers renew first" in (summary.startup_grace or "")


def test_an_unreachable_registry_is_remembered(runtime, backend):
    from contextlib import contextmanager

    @contextmanager
    def away():
        raise DependencyDown("The registry cannot be reached")
        yield

    with pytest.raises(DependencyDown):
        reconcile_once(away, runtime, backend, holder="test")
    assert StartupGracePeriod(runtime.drivers).answered(server_up_s=9999) is not None


def test_the_pass_of_a_persons_command_does_not_count_as_supervision(once, deployed, connected):
    deployed("flights", desired="stopped")
    with connected() as connection:
        incidents.opened(connection, "reconcile", "streams", "no reconcile pass has succeeded for 9 min")
    once(supervises=False)
    with connected() as connection:
        assert dead_mans_switch.newest(connection) is None
        assert ("reconcile", "streams") in incidents.open_ones(connection)
    once()
    with connected() as connection:
        assert dead_mans_switch.newest(connection) is not None
        assert ("reconcile", "streams") not in incidents.open_ones(connection)
