"""Drivers on a standalone cluster as the backend finds and ends them; the registry is real, the master a stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from small_streams import connected, registry_file, runtime
from spark_master import SparkMaster, running
from sqlalchemy import text, update

from lakeward.connectors.kubernetes.client import Apis
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Launch, Runtime
from lakeward.registry import drivers, launches
from lakeward.registry.schema import launches as rows
from lakeward.supervision.backends.base import Job, Known, Life
from lakeward.supervision.backends.chooser import Backends
from lakeward.supervision.backends.kubernetes import KubernetesBackend
from lakeward.supervision.backends.local import LocalBackend
from lakeward.supervision.backends.standalone import StandaloneBackend
from lakeward.supervision.backends.yarn import YarnBackend
from lakeward.supervision.observe import Connect

__all__ = ["connected", "registry_file", "runtime"]  # fixtures


@pytest.fixture
def master() -> Iterator[SparkMaster]:
    with running() as found:
        yield found


@pytest.fixture
def cluster(connected: Connect) -> StandaloneBackend:
    return StandaloneBackend(connected)


@pytest.fixture
def launched(
    connected: Connect, cluster: StandaloneBackend, runtime: Runtime, master: SparkMaster
) -> Callable[..., Job]:
    """Launch driver `big` as an actor does."""
    runtime.jars.mkdir()
    (runtime.jars / "one.jar").touch()

    def launch(token: str = "t1", previous: str | None = None) -> Job:
        with connected() as connection:
            assert drivers.record_intent(connection, "big", token=token, previous=previous, backend="standalone")
        document = Launch(
            driver="big", token=token, folder=runtime.drivers, runtime=runtime, cluster=master.place,
            conf={"spark.master": master.place.master},
        )  # fmt: skip
        job = cluster.start(document)
        with connected() as connection:
            drivers.started(connection, "big", token, handle=job.handle or {}, host=job.host, log=job.log)
        return job

    return launch


def test_a_launch_is_a_row_and_a_submission_with_its_id(
    launched: Callable[..., Job], connected: Connect, master: SparkMaster, cluster: StandaloneBackend
) -> None:
    job = launched()
    [request] = master.created
    with connected() as connection:
        found = launches.document(connection, request["appArgs"][3])
    assert found is not None
    assert (found["token"], found["driver"]) == ("t1", "big")
    assert "t1" not in str(request)
    assert [(each.token, each.life, each.handle) for each in cluster.find()] == [("t1", Life.ALIVE, job.handle)]


@pytest.mark.parametrize(
    ("state", "life", "lost"),
    [
        ("RUNNING", Life.ALIVE, ""),
        ("RELAUNCHING", Life.ALIVE, ""),
        ("FINISHED", Life.GONE, ""),
        ("KILLED", Life.GONE, ""),
        ("ERROR", Life.UNKNOWN, "its worker node-one is lost"),
        ("UNKNOWN", Life.UNKNOWN, "its worker node-one is lost"),
        ("A_NEW_STATE", Life.UNKNOWN, "A_NEW_STATE"),
        (None, Life.UNKNOWN, "does not know its driver any more"),
    ],
)
def test_what_the_master_says_is_what_is_known(
    launched: Callable[..., Job],
    master: SparkMaster,
    cluster: StandaloneBackend,
    state: str | None,
    life: Life,
    lost: str,
) -> None:
    launched()
    master.states = {} if state is None else {"driver-0001": state}
    [job] = cluster.find()
    assert job.life is life
    assert lost in job.lost


def test_a_driver_without_room_says_what_is_free(
    launched: Callable[..., Job], master: SparkMaster, cluster: StandaloneBackend
) -> None:
    launched()
    master.states["driver-0001"] = "SUBMITTED"
    [job] = cluster.find()
    assert job.life is Life.ALIVE
    assert job.waits == (
        "the Spark cluster has no room for its driver; its workers have free: node-one 0 cores and 300 MB"
    )
    assert cluster.stop(job, grace_s=60)  # there is nothing to wait for
    assert master.killed == ["driver-0001"]


def test_a_worker_that_could_not_start_it_says_why(
    launched: Callable[..., Job], master: SparkMaster, cluster: StandaloneBackend
) -> None:
    launched()
    master.states["driver-0001"] = "ERROR"
    why = "java.nio.file.NoSuchFileException: /jars/a.jar"
    master.messages["driver-0001"] = f"Exception from the cluster:\n{why}\n\tat x"
    [job] = cluster.find()
    assert job.life is Life.GONE
    assert job.exit == {
        "error": "The Spark worker node-one could not start the driver: java.nio.file.NoSuchFileException: /jars/a.jar"
    }


def test_a_driver_that_never_took_its_launch_says_where_its_output_is(
    launched: Callable[..., Job], master: SparkMaster, cluster: StandaloneBackend
) -> None:
    launched()
    master.states["driver-0001"] = "FAILED"
    [job] = cluster.find()
    assert job.exit is not None
    assert "what it printed is on worker node-one, folder driver-0001" in str(job.exit["error"])


def test_last_words_come_from_the_row(
    launched: Callable[..., Job], master: SparkMaster, cluster: StandaloneBackend, connected: Connect
) -> None:
    job = launched()
    with connected() as connection:
        row = launches.of_token(connection, job.token)
        assert row is not None
        launches.arrived(connection, row.id, job.handle or {}, host="node-one", log="/work/driver-0001")
        launches.write_logs(connection, row.id, log="a line", printed="x\npassword=abc\n")
        launches.write_exit(connection, row.id, {"exit_code": 1, "error": "The driver lost its JVM: it ended"})
    [job] = cluster.find()
    assert (job.life, job.exit, job.host) == (Life.ALIVE, None, "node-one")
    master.states["driver-0001"] = "FAILED"
    [job] = cluster.find()
    assert job.exit == {"exit_code": 1, "error": "The driver lost its JVM: it ended"}
    assert (job.log, job.printed) == ("/work/driver-0001", "x\npassword=***\n")


def test_one_list_call_for_all_drivers_of_a_master(
    launched: Callable[..., Job], master: SparkMaster, cluster: StandaloneBackend
) -> None:
    launched()
    launched("t2", "t1")
    launched("t3", "t2")
    master.calls.clear()
    assert [(job.token, job.life) for job in cluster.find()] == [(token, Life.ALIVE) for token in ("t1", "t2", "t3")]
    assert master.calls == ["GET /json/"]


def test_a_starter_that_died_after_its_submission_leaves_no_job_until_the_driver_says_where_it_is(
    launched: Callable[..., Job], cluster: StandaloneBackend, connected: Connect
) -> None:
    job = launched()
    with connected() as connection:
        connection.execute(text("UPDATE launches SET handle = NULL"))
    assert cluster.find() == []
    with connected() as connection:
        row = launches.of_token(connection, job.token)
        assert row is not None
        launches.arrived(connection, row.id, job.handle or {}, host="node-one", log="/work/driver-0001")
    assert [each.life for each in cluster.find()] == [Life.ALIVE]


def test_a_stop_asks_the_driver_first_and_kills_it_later(
    launched: Callable[..., Job], master: SparkMaster, cluster: StandaloneBackend, connected: Connect
) -> None:
    job = launched()
    master.states["driver-0001"] = "FINISHED"
    assert cluster.stop(job, grace_s=60)
    assert master.killed == []
    with connected() as connection:
        row = launches.of_token(connection, job.token)
        assert row is not None
        assert launches.requests(connection, row.id).end
    master.states["driver-0001"] = "RUNNING"
    assert cluster.stop(job, grace_s=0)
    assert master.killed == ["driver-0001"]


def test_a_kill_that_the_master_does_not_hear_is_no_end(
    launched: Callable[..., Job], master: SparkMaster, cluster: StandaloneBackend
) -> None:
    job = launched()
    master.answers["/v1"] = (500, "no JSON")
    assert not cluster.kill(job)


def test_a_master_that_is_away_makes_only_its_own_drivers_unknown(
    launched: Callable[..., Job], master: SparkMaster, cluster: StandaloneBackend, connected: Connect
) -> None:
    launched()
    launched("t2", "t1")
    away = {"master": "spark://away:7077", "rest": None, "ui": "http://127.0.0.1:1"}
    with connected() as connection:
        connection.execute(rows.update().where(rows.c.token == "t1").values(place=away))
    assert [(job.token, job.life, job.lost) for job in cluster.find()] == [
        ("t1", Life.UNKNOWN, ""),
        ("t2", Life.ALIVE, ""),
    ]


def test_a_registry_that_is_away_makes_drivers_on_clusters_unknown(runtime: Runtime) -> None:
    def away() -> None:
        raise DependencyDown("The registry does not answer", code="LW-6001")

    of_spark = StandaloneBackend(away)  # type: ignore[arg-type]  # never returns
    of_pods = KubernetesBackend(away, Apis(None).of)  # type: ignore[arg-type]  # never returns
    known = [
        Known("big", "t1", {"submission": "driver-0001", "master": "spark://h:7077"}, ""),
        Known("pod", "t2", {"pod": "lakeward-pod-1", "namespace": "streams", "uid": "u"}, ""),
        Known("app", "t3", {"application": "application_1_1"}, ""),
    ]
    of_yarn = YarnBackend(away)  # type: ignore[arg-type]  # never returns
    found = Backends(LocalBackend(runtime.drivers), of_spark, of_pods, of_yarn).find(known)
    assert [(job.driver, job.life, job.host) for job in found] == [
        ("big", Life.UNKNOWN, "spark://h:7077"),
        ("pod", Life.UNKNOWN, "streams"),
        ("app", Life.UNKNOWN, "application_1_1"),
    ]


def test_a_launch_whose_row_was_removed_is_lost(cluster: StandaloneBackend) -> None:
    [job] = cluster.find([Known("big", "t1", {"submission": "driver-0001", "master": "spark://h:7077"}, "")])
    assert (job.life, job.lost) == (Life.UNKNOWN, "the registry has no record of its launch")


def test_a_launch_that_cannot_be_judged_is_unknown_and_the_others_are_judged(
    launched: Callable[..., Job], master: SparkMaster, cluster: StandaloneBackend
) -> None:
    launched()
    launched("t2", "t1")
    master.states = {"driver-0001": "ERROR", "driver-0002": "RUNNING"}
    master.answers["/v1/submissions/status"] = (500, "no JSON")
    assert [(job.token, job.life) for job in cluster.find()] == [("t1", Life.UNKNOWN), ("t2", Life.ALIVE)]


def test_a_launch_whose_place_cannot_be_read_is_unknown_and_the_others_are_judged(
    launched: Callable[..., Job], master: SparkMaster, cluster: StandaloneBackend, connected: Connect
) -> None:
    launched()
    launched("t2", "t1")
    master.states = {"driver-0001": "RUNNING", "driver-0002": "RUNNING"}
    with connected() as connection:
        odd = rows.c.token == "t1"
        connection.execute(update(rows).where(odd).values(place={"master": "spark://h:7077", "odd": 1}))
    assert [(job.token, job.life) for job in cluster.find()] == [("t1", Life.UNKNOWN), ("t2", Life.ALIVE)]
