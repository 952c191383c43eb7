"""One incident for one broken thing, however many streams show it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from lakeward.platform import ports
from lakeward.registry import drivers, events, observations, operations, restarts, schema, streams
from lakeward.registry import incidents as kept
from lakeward.registry.schema import drivers as launches
from lakeward.registry.schema import generations as table
from lakeward.spec.model.settings import Driver, Settings
from lakeward.spec.model.types import DriverName, SparkMaster
from lakeward.supervision import incidents, observe, probes
from lakeward.supervision.decide.dependencies import Dependency, Kind
from lakeward.supervision.decide.health import State, Verdict
from lakeward.supervision.decide.remedy import of_block
from lakeward.supervision.reconcile import reconcile_once
from lakeward.supervision.startup_grace import StartupGracePeriod

KAFKA = Dependency(Kind.KAFKA, "lakeward_kafka")
SPEC = {"sources": {"source": {"kafka": {"connection": "lakeward_kafka"}}}, "sink": {"kafka": {"topic": "t"}}}


@pytest.fixture
def nine(connected, deployed):
    """Nine streams with a driver each, all of which died on the same broker."""
    names = [f"s{number}" for number in range(9)]
    for name in names:
        deployed(name, driver=name)
    with connected() as connection:
        connection.execute(table.update().values(spec=SPEC))
        for name in names:
            assert drivers.record_intent(connection, name, token="t", previous=None, backend="local")
            drivers.exited(connection, name, "t", exit_code=1, error="Connection refused")
            restarts.record(
                connection, driver=name, stream=None, failure_class="dependency", error="Connection refused",
                attempt=4, delay=timedelta(minutes=5), exit_code=1,
            )  # fmt: skip
    return names


@pytest.fixture
def once(connected, runtime, backend, monkeypatch):
    monkeypatch.setattr(StartupGracePeriod, "answered", lambda self, server_up_s: None)
    monkeypatch.setattr(probes, "ANSWER_S", 1.0)
    gone = runtime.model_copy(update={"kafka": {"lakeward_kafka": f"127.0.0.1:{ports.any_free()}"}})

    def run(runtime=gone):
        return reconcile_once(connected, runtime, backend, holder="test", chance=lambda: 0.0)

    return run


def open_ones(connected):
    with connected() as connection:
        return kept.open_ones(connection)


def test_nine_streams_on_one_dead_broker_are_one_incident_and_say_so(once, nine, connected) -> None:
    summary = once()
    assert list(open_ones(connected)) == [("dependency", KAFKA.subject)]
    (incident,) = open_ones(connected).values()
    assert incident.fields["streams"] == nine
    assert "9 streams need it" in incident.text
    assert all("Kafka (lakeward_kafka) does not answer" in summary.states[name].why for name in nine)
    assert summary.launched == []


def test_an_attempt_is_not_burnt_while_the_broker_is_away(once, nine, connected) -> None:
    from sqlalchemy import text

    once()
    with connected() as connection:
        connection.execute(text("UPDATE restarts SET next_attempt_at = now() - interval '1 minute'"))
    assert once().launched == []


def test_when_it_answers_again_the_incident_ends_and_the_streams_come_back(once, nine, connected) -> None:
    once()
    with connected() as connection:
        facts = observe.read(connection)
        incidents.of_dependencies(connection, facts, {KAFKA: None}, {KAFKA: nine}, lambda: 0.5)
    assert open_ones(connected) == {}
    with connected() as connection:
        waits = [item.next_attempt_at - facts.now for item in restarts.newest(connection).values()]
        (line,) = [item for item in events.newest(connection, "stack", "streams") if item.kind == "dependency"]
    assert all(wait <= timedelta(seconds=6) for wait in waits)
    assert "answers again" in line.text


def test_a_dependency_nobody_asks_any_more_is_not_said_to_answer(once, nine, connected) -> None:
    once()
    with connected() as connection:
        streams.set_desired(connection, nine, "stopped")
        before = restarts.newest(connection)
    once()
    assert open_ones(connected) == {}
    with connected() as connection:
        (incident,) = kept.pending(connection)
        assert {key: item.next_attempt_at for key, item in restarts.newest(connection).items()} == {
            key: item.next_attempt_at for key, item in before.items()
        }
    assert incident.text == ("Kafka (lakeward_kafka) is not probed any more: no running stream needs it")


def test_a_query_that_waits_inside_its_driver_comes_back_too(nine, connected) -> None:
    from lakeward.registry import observations

    with connected() as connection:
        kept.opened(
            connection, "dependency", KAFKA.subject, "Kafka is away", streams=nine, what="Kafka does not answer"
        )
        observations.record(connection, "s0", query_state="failed", error={"class": "dependency"})
        facts = observe.read(connection)
        streams.set_run_after(connection, "s0", facts.now + timedelta(minutes=9))
        facts = observe.read(connection)
        incidents.of_dependencies(connection, facts, {KAFKA: None}, {KAFKA: nine}, lambda: 0.5)
        assert streams.get(connection, "s0").run_after <= facts.now + timedelta(seconds=6)


def _entry(backend: str, port: int, connections: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """The entry of a driver on a cluster that nothing answers for at this port."""
    if backend == "standalone":
        return Driver(backend="standalone", master=SparkMaster(f"spark://127.0.0.1:{port}"))
    if backend == "yarn":
        monkeypatch.setenv("HADOOP_CONF_DIR", str(connections))
        return Driver.model_validate({"backend": "yarn", "resource_manager": f"http://127.0.0.1:{port}"})
    file = connections / "kubernetes" / "prod.kubeconfig"
    file.parent.mkdir(parents=True)
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    file.write_text(json.dumps({"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}))
    return Driver.model_validate({"backend": "kubernetes", "image": "lakeward:1", "connection": "prod"})


@pytest.mark.parametrize(
    ("backend_of", "subject", "words"),
    [
        ("standalone", "master:spark://127.0.0.1:{}", "The Spark master spark://127.0.0.1:{} does not answer: "),
        ("yarn", "yarn:http://127.0.0.1:{}", "The ResourceManager of YARN (http://127.0.0.1:{}) does not answer: "),
        ("kubernetes", "kubernetes:prod", "The API of Kubernetes (prod) does not answer: "),
    ],
)
def test_a_cluster_that_is_away_is_one_incident_of_the_streams_whose_drivers_need_it(
    once, nine, connected, runtime, backend, tmp_path, monkeypatch, backend_of, subject, words
) -> None:
    port = ports.any_free()
    runtime = runtime.model_copy(update={"connections": tmp_path})
    big = _entry(backend_of, port, tmp_path, monkeypatch)
    settings = Settings(drivers={DriverName(name): big for name in nine[:4]})
    with connected() as connection:
        connection.execute(table.update().values(spec={"sources": {}, "sink": {"console": {}}}))
        connection.execute(launches.update().where(launches.c.name.in_(nine[:4])).values(backend=backend_of))
    summary = reconcile_once(
        connected, runtime, backend, holder="test", settings=settings, chance=lambda: 0.0, startup_grace_s=0.0
    )
    incident = open_ones(connected)["dependency", subject.format(port)]
    assert incident.fields["streams"] == nine[:4]
    assert incident.text.startswith(words.format(port))
    assert incident.fields["next"] == "lakeward doctor", "it asks the cluster"
    assert summary.launched == []


def test_many_at_once_stop_restarts_for_a_while_and_are_one_incident(
    connected, runtime, backend, deployed, monkeypatch
):
    monkeypatch.setattr(StartupGracePeriod, "answered", lambda self, server_up_s: None)
    names = [f"s{number}" for number in range(5)]
    for name in names:
        deployed(name, driver=name)
    with connected() as connection:
        for name in names:
            drivers.record_intent(connection, name, token="t", previous=None, backend="local")
            drivers.exited(connection, name, "t", exit_code=1, error="who knows")
            restarts.record(
                connection, driver=name, stream=None, failure_class="infra", error="who knows", attempt=1,
                delay=timedelta(0), exit_code=1,
            )  # fmt: skip
    with connected() as connection:
        for name in ("s0", "s1"):
            observations.record(connection, name, query_state="failed")
    with connected() as connection:  # a person starts one of them after it failed
        operations.begin(connection, "s1", "start", author="ann", holder="h", token="o", comment="")
    summary = reconcile_once(connected, runtime, backend, holder="test", chance=lambda: 0.0)
    assert summary.launched == ["s1"]
    assert list(open_ones(connected)) == [("thrash", "streams")]
    with connected() as connection:
        assert streams.get(connection, "s0").run_after is not None
        assert streams.get(connection, "s1").run_after is None
    waits = [name for name, each in summary.states.items() if "automatic restarts are suspended" in each.why]
    assert sorted(waits) == ["s0", "s2", "s3", "s4"]
    from sqlalchemy import text

    with connected() as connection:
        connection.execute(text("UPDATE restarts SET at = now() - interval '5 minutes'"))
        connection.execute(text("UPDATE drivers SET launched_at = now() - interval '6 minutes'"))
        connection.execute(
            text("UPDATE incidents SET fields = jsonb_set(fields, '{until}', to_jsonb(now() - interval '1 second'))")
        )
    assert sorted(reconcile_once(connected, runtime, backend, holder="test").launched) == names
    assert open_ones(connected) == {}


def test_the_pause_of_restarts_ends_also_when_a_person_has_started_everything_by_then(
    once, connected, deployed
) -> None:
    deployed("flights", desired="stopped")  # nothing is wrong with it
    with connected() as connection:
        until = observe.read(connection).now - timedelta(seconds=1)
        kept.opened(connection, "thrash", "streams", "Restarts have stopped", what="all fail", until=until.isoformat())
    once()
    assert open_ones(connected) == {}


def test_a_stalled_stream_that_is_restarted_is_the_same_incident_until_it_is_well(connected, deployed) -> None:
    deployed("flights")
    seen = []
    for state in (State.STALLED, State.RESTARTING, State.HEALTHY):
        with connected() as connection:
            incidents.of_streams(connection, observe.read(connection), {"flights": Verdict(state, "so it is")})
            streams.set_state(connection, "flights", state.value, "so it is")
            seen += [(item.id, item.text.split(":")[0], item.closed_at) for item in kept.pending(connection)]
    (first, stalled, _), (second, restarting, still_open), (third, _, closed) = seen
    assert first == second == third
    assert (stalled, restarting) == ("Stream flights is stalled", "Stream flights is restarting")
    assert still_open is None
    assert closed is not None


def test_a_blocked_stream_is_an_incident_until_a_person_starts_it(once, connected, deployed) -> None:
    deployed("flights", desired="running")
    with connected() as connection:
        streams.block(connection, "flights", {"reason": "gap", "what": "offsets are gone", "next": "do something"})
    once()
    (incident,) = open_ones(connected).values()
    assert (incident.kind, incident.subject, incident.fields["next"]) == (
        "stream",
        "flights",
        "do something; then: lakeward streams start flights",
    )
    once()
    with connected() as connection:
        assert [item.id for item in kept.pending(connection)] == [incident.id]
        streams.set_desired(connection, ["flights"], "stopped")
        streams.set_desired(connection, ["flights"], "running")
    once()
    assert open_ones(connected) == {}


def test_the_incident_has_the_next_of_the_block_also_when_that_changes_between_two_passes(connected, deployed) -> None:
    deployed("flights")
    config = "correct it, then: lakeward streams start flights"
    seen = []
    for reason, told, pending in (
        ("table-missing", 'lakeward sql --write "CALL x"   restores it', None),
        ("source-expired", "lakeward streams reset flights --to available", None),
        ("config", config, None),
        ("config", config, 2),
    ):
        with connected() as connection:
            streams.block(connection, "flights", {"reason": reason, "what": reason, "next": told})
            connection.execute(schema.streams.update().values(pending_generation=pending))
            facts = observe.read(connection)
            incidents.of_streams(connection, facts, {"flights": Verdict(State.BLOCKED, "blocked")})
        (found,) = open_ones(connected).values()
        shown = of_block("flights", facts.by_id["flights"].blocked or {}, pending=pending)
        assert found.fields["next"] == shown, "as the stream's status says"
        seen.append(found.id)
    assert len(set(seen)) == 1 and "upgrade flights" in shown


def test_a_pass_closes_the_incident_of_passes_that_stayed_away(once, connected, deployed) -> None:
    deployed("flights", desired="stopped")
    with connected() as connection:
        kept.opened(connection, "reconcile", "streams", "No reconcile pass has succeeded")
    once()
    assert open_ones(connected) == {}


def test_state_beyond_its_bound_is_one_incident_until_it_is_well_below(connected, deployed) -> None:
    from lakeward.registry import observations

    deployed("flights")
    with connected() as connection:
        connection.execute(table.update().values(spec={**SPEC, "state": {"max_rows": 100}}))

    def look_at(rows: int | None):
        with connected() as connection:
            observations.record(connection, "flights", watch={"state": None if rows is None else {"rows": rows}})
            facts = observe.read(connection, whole=False)
            incidents.of_state(connection, facts)
            return kept.open_ones(connection).get(("state", "flights"))

    assert look_at(100) is None
    opened = look_at(101)
    assert opened is not None
    assert "101 rows, more than max_rows of 100" in opened.text
    assert opened.fields["next"].startswith("lakeward streams state flights")
    assert look_at(95) == opened, "about the bound it is the same one"
    assert look_at(90) is None
    assert look_at(None) is None
    with connected() as connection:
        [told] = [each for each in events.newest(connection, "stream", "flights") if each.kind == "state_rows"]
    assert told.fields["rows"] == 101


def test_a_watermark_ahead_of_the_clock_is_a_state_and_one_incident_until_the_clock_has_passed_it(
    connected, deployed
) -> None:
    from lakeward.registry import observations

    deployed("flights")
    windowed = {"sources": {"source": {"kafka": {"topics": ["t"]}, "watermark": {"column": "t", "delay": "10m"}}}}
    with connected() as connection:
        connection.execute(table.update().values(spec={**SPEC, **windowed}))

    def look_at(watermark: str | None, dropped: int = 0, kept: int = 1):
        late = {"batches": 20, "dropped": dropped, "kept": kept, "watermark": watermark}
        with connected() as connection:
            observations.record(connection, "flights", watch={"late": late})
            facts = observe.read(connection, whole=False)
            incidents.of_late(connection, facts)
            return kept_of(connection), facts.late("flights")

    def kept_of(connection):
        return kept.open_ones(connection).get(("late", "flights"))

    assert look_at("2026-01-01T00:00:00.000Z") == (None, None)
    opened, why = look_at("2099-01-01T00:00:00.000Z", dropped=300)
    assert opened is not None
    assert "its watermark is 2099-01-01 00:00:00 UTC" in opened.text
    assert opened.fields["next"].startswith("lakeward streams status flights")
    assert why is not None
    assert look_at("2099-01-01T00:00:00.000Z")[0] == opened
    assert look_at("2026-01-01T00:00:00.000Z") == (None, None)
    assert look_at(None, dropped=60, kept=40)[0] is not None
    assert look_at(None, dropped=30, kept=70)[0] is not None, "about the bound it stays open"
    assert look_at(None, dropped=5, kept=95) == (None, None)
    with connected() as connection:
        told = [each for each in events.newest(connection, "stream", "flights") if each.kind == "late"]
    assert len(told) == 2


@pytest.mark.parametrize("watermark", [None, "2099-01-01T00:00:00.000Z"])
def test_the_incident_of_a_stream_that_keeps_late_records_says_nothing_of_a_loss(
    connected, deployed, watermark
) -> None:
    from lakeward.registry import observations

    deployed("flights")
    source = {"kafka": {"topics": ["t"]}, "watermark": {"column": "t", "delay": "10m"}}
    with connected() as connection:
        spec = {**SPEC, "sources": {"source": source}, "late": {"table": "nyc.late"}}
        connection.execute(table.update().values(spec=spec))

    def texts(dropped: int, watermark: str | None) -> str:
        late = {"batches": 20, "dropped": dropped, "kept": 100 - dropped, "watermark": watermark}
        with connected() as connection:
            observations.record(connection, "flights", watch={"late": late})
            incidents.of_late(connection, observe.read(connection, whole=False))
            return " ".join(f"{row.text} {row.fields}" for row in connection.execute(select(schema.incidents)))

    opened = texts(60, watermark)
    assert "kept in nyc.late" in opened
    closed = texts(0, None)
    assert closed != opened
    for word in ("drop", "lost"):
        assert word not in opened + closed
