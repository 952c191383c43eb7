"""Drivers on YARN, as the backend starts, finds and ends them; the registry is real, the ResourceManager a stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from small_streams import connected, registry_file, runtime
from sqlalchemy import text
from yarn_rm import YarnRm, running

from lakeward.connectors.yarn import submit
from lakeward.connectors.yarn.client import ResourceManager
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import Launch, Runtime, YarnPlace
from lakeward.registry import drivers, launches
from lakeward.supervision import observe
from lakeward.supervision.backends import yarn as backend_module
from lakeward.supervision.backends.base import Job, Known, Life
from lakeward.supervision.backends.yarn import YarnBackend
from lakeward.supervision.observe import Connect

__all__ = ["connected", "registry_file", "runtime"]  # fixtures


@pytest.fixture
def manager() -> Iterator[YarnRm]:
    with running() as found:
        yield found


@dataclass
class Sender:
    """Submits as spark-submit does: by an application with the launch's tags.

    Attributes:
        error: raised instead of an answer.
        before: whether the error comes before anything was submitted.
    """

    manager: YarnRm
    error: LakewardError | None = None
    before: bool = False
    sent: list[dict[str, str]] = field(default_factory=list)

    def __call__(self, launch: Launch, place: YarnPlace) -> str:
        conf = submit.settings(launch, place, "python")
        self.sent.append(conf)
        if self.error is not None and self.before:
            raise self.error
        name = self.manager.add(conf["spark.yarn.tags"])
        if self.error is not None:
            raise self.error
        return name


@pytest.fixture
def sender(manager: YarnRm) -> Sender:
    return Sender(manager)


@pytest.fixture
def cluster(connected: Connect, sender: Sender, monkeypatch: pytest.MonkeyPatch) -> YarnBackend:
    monkeypatch.setattr(backend_module, "KILL_S", 0.2)
    monkeypatch.setattr(backend_module, "_POLL_S", 0.05)
    return YarnBackend(connected, send=sender)


@pytest.fixture
def launched(
    connected: Connect, cluster: YarnBackend, runtime: Runtime, manager: YarnRm, tmp_path: Path
) -> Callable[..., Job]:
    """Launch driver `big` as an actor does."""
    runtime.jars.mkdir()
    (runtime.jars / "one.jar").touch()
    place = YarnPlace(hadoop_conf=str(tmp_path), resource_managers=(manager.url,))

    def launch(token: str = "t1", previous: str | None = None) -> Job:
        with connected() as connection:
            assert drivers.record_intent(connection, "big", token=token, previous=previous, backend="yarn")
        given = Launch(driver="big", token=token, folder=runtime.drivers, runtime=runtime, yarn=place)
        job = cluster.start(given)
        with connected() as connection:
            drivers.started(connection, "big", token, handle=job.handle or {}, host=job.host, log=job.log)
        return job

    return launch


def row_of(connected: Connect, token: str) -> launches.LaunchRow:
    with connected() as connection:
        row = launches.of_token(connection, token)
    assert row is not None
    return row


def test_a_launch_is_a_row_and_an_application_whose_tags_have_no_secret(
    launched: Callable[..., Job], manager: YarnRm, sender: Sender, connected: Connect, runtime: Runtime
) -> None:
    job = launched("a-token-of-this-launch")
    [app] = manager.apps.values()
    row = row_of(connected, job.token)
    assert job.handle == row.handle == {"application": app["id"]}
    assert submit.launch_tag(job.token) in app["applicationTags"].split(",")
    assert app["applicationTags"] == app["applicationTags"].lower()
    url = runtime.registry_url_file.read_text().strip()
    assert "a-token" not in str(sender.sent) and url not in str(sender.sent)
    [conf] = sender.sent
    assert (conf["spark.yarn.maxAppAttempts"], conf["spark.yarn.queue"]) == ("1", "default")
    with connected() as connection:
        assert launches.document(connection, row.id)["token"] == job.token  # type: ignore[index]  # it is there


def test_an_answer_that_is_lost_is_found_by_its_tag_and_nothing_is_submitted_again(
    launched: Callable[..., Job], manager: YarnRm, sender: Sender, cluster: YarnBackend
) -> None:
    sender.error = LakewardError("spark-submit did not submit", why="it did not end", next="-", code="LW-2571")
    job = launched()
    assert list(manager.apps) == [(job.handle or {})["application"]]
    assert [(each.token, each.handle, each.life) for each in cluster.find()] == [("t1", job.handle, Life.ALIVE)]


def test_a_submission_that_is_refused_is_an_error_with_its_words(
    launched: Callable[..., Job], manager: YarnRm, sender: Sender, cluster: YarnBackend, connected: Connect
) -> None:
    sender.error = DependencyDown("YARN does not take drivers", why="unknown queue", next="-", code="LW-2567")
    sender.before = True
    with pytest.raises(DependencyDown, match="does not take"):
        launched()
    assert cluster.find() == [], "a launch without an application is not a process"
    with connected() as connection:
        launch = launches.of_token(connection, "t1")
    assert launch is not None and launch.handle is None
    refused = "Application application_1_0001 submitted by user airflow to unknown queue: nowhere"
    tags = str(sender.sent[0]["spark.yarn.tags"])
    manager.add(tags, state="FAILED", finalStatus="FAILED", diagnostics=refused)
    assert cluster.find() == [], "what YARN refused was no process either"


def test_a_manager_that_is_away_is_named_before_anything_is_recorded_or_submitted(
    launched: Callable[..., Job], manager: YarnRm, sender: Sender, connected: Connect
) -> None:
    manager.refusals["GET /info"] = (503, "")
    with pytest.raises(DependencyDown) as error:
        launched()
    assert error.value.code == "LW-2565"
    with connected() as connection:
        assert launches.of_token(connection, "t1") is None
    assert sender.sent == []


def test_a_driver_whose_starter_died_is_found_by_its_tag(
    launched: Callable[..., Job], connected: Connect, cluster: YarnBackend
) -> None:
    job = launched()
    with connected() as connection:
        connection.execute(text("UPDATE launches SET handle = NULL"))
    assert [(each.token, each.handle) for each in cluster.find()] == [("t1", job.handle)]


def test_one_list_call_for_all_drivers_of_a_deployment(
    launched: Callable[..., Job], manager: YarnRm, cluster: YarnBackend
) -> None:
    launched()
    launched("t2", "t1")
    launched("t3", "t2")
    manager.calls.clear()
    assert [(job.token, job.life) for job in cluster.find()] == [(token, Life.ALIVE) for token in ("t1", "t2", "t3")]
    assert manager.calls == ["GET /apps"]


@pytest.mark.parametrize("odd", ["row", "application"])
def test_a_launch_that_cannot_be_judged_is_unknown_and_the_others_are_judged(
    launched: Callable[..., Job], connected: Connect, manager: YarnRm, cluster: YarnBackend, odd: str
) -> None:
    first = launched()
    launched("t2", "t1")
    if odd == "row":
        with connected() as connection:
            connection.execute(text("UPDATE launches SET place = place || '{\"odd\": \"key\"}' WHERE token = 't1'"))
    else:
        manager.apps[(first.handle or {})["application"]]["amHostHttpAddress"] = ["no", "address"]
        del manager.apps[(first.handle or {})["application"]]["id"]
    assert {job.token: job.life for job in cluster.find()} == {"t1": Life.UNKNOWN, "t2": Life.ALIVE}


@pytest.mark.parametrize(
    "refusal",
    [
        (401, "<html>Authentication required</html>"),
        (403, {"RemoteException": {"message": "User dr.who is not authorized"}}),
        (404, "<html>controller for v1 not found</html>"),
        (500, {"RemoteException": {"message": "java.lang.NullPointerException"}}),
        (503, ""),
        (200, "<html>a portal that wants a login</html>"),
        (200, {"something": "else"}),
        (307, "This is standby RM. The redirect url is: /ws"),
    ],
)
def test_a_resource_manager_that_does_not_say_makes_drivers_unknown(
    launched: Callable[..., Job], manager: YarnRm, cluster: YarnBackend, refusal: tuple[int, object]
) -> None:
    launched()
    manager.refusals["GET /apps"] = refusal
    [found] = cluster.find()
    assert (found.life, found.lost, found.exit) == (Life.UNKNOWN, "", None)


def test_people_read_which_server_could_not_be_asked(
    launched: Callable[..., Job], manager: YarnRm, cluster: YarnBackend, connected: Connect
) -> None:
    launched()
    manager.refusals["GET /apps"] = (503, "")
    with connected() as connection:
        row = observe.read(connection).drivers["big"]
    life, why = observe._life(row, observe.by_launch(cluster.find()), "s")
    assert (life, why) == (Life.UNKNOWN, "the ResourceManager of driver big could not be asked")


def test_the_active_one_of_two_managers_is_asked(manager: YarnRm) -> None:
    manager.add("lakeward-a")
    with running() as standby:
        standby.standby = True
        both = ResourceManager((standby.url, manager.url))
        assert [app["state"] for app in both.apps("lakeward-a")] == ["RUNNING"]
        alone = ResourceManager((standby.url, "http://127.0.0.1:9"))
        with pytest.raises(DependencyDown) as error:
            alone.apps("lakeward-a")
        assert "it is a standby" in error.value.why and "ConnectError" in error.value.why
        standby.standby = False  # the form of other versions: no redirection, but a page
        standby.refusals["GET /apps"] = (200, "This is standby RM. Redirecting to the current active RM")
        with pytest.raises(DependencyDown, match="does not answer") as error:
            alone.apps("lakeward-a")
        assert "it is a standby" in error.value.why


def test_an_application_that_is_forgotten_is_lost_unless_its_driver_wrote_how_it_ended(
    launched: Callable[..., Job], manager: YarnRm, cluster: YarnBackend, connected: Connect
) -> None:
    job = launched()
    manager.apps.clear()
    [found] = cluster.find()
    assert found.life is Life.UNKNOWN
    assert (
        found.lost == f"the ResourceManager does not know its application {(job.handle or {})['application']} any more"
    )
    with connected() as connection:
        launches.write_exit(connection, row_of(connected, "t1").id, {"exit_code": 0})
    [found] = cluster.find()
    assert (found.life, found.exit) == (Life.GONE, {"exit_code": 0})


def test_an_end_that_only_yarn_tells_is_kept_and_the_driver_s_own_word_is_not_overwritten(
    launched: Callable[..., Job], manager: YarnRm, cluster: YarnBackend, connected: Connect
) -> None:
    first = launched()
    second = launched("t2", "t1")
    with connected() as connection:
        launches.write_exit(connection, row_of(connected, "t2").id, {"exit_code": 1, "error": "its own"})
    for job in (first, second):
        said = {"state": "KILLED", "diagnostics": "Application x was killed by user root"}
        manager.apps[(job.handle or {})["application"]] |= said
    assert {job.token: job.life for job in cluster.find()} == {"t1": Life.GONE, "t2": Life.GONE}
    manager.apps.clear()
    assert row_of(connected, "t2").exit == {"exit_code": 1, "error": "its own"}
    assert "killed by user root" in str(row_of(connected, "t1").exit)


def test_a_driver_that_waits_says_why_and_is_withdrawn_by_a_kill(
    launched: Callable[..., Job], manager: YarnRm, cluster: YarnBackend
) -> None:
    job = launched()
    name = (job.handle or {})["application"]
    said = "Application is added to the scheduler and is not yet activated. Queue's AM resource limit exceeded."
    manager.apps[name] |= {"state": "ACCEPTED", "diagnostics": said}
    [found] = cluster.find()
    assert found.life is Life.ALIVE and "Queue's AM resource limit exceeded" in found.waits
    assert cluster.stop(found, grace_s=60)  # there is nothing to wait for
    assert manager.killed == [name]


def test_a_driver_is_asked_in_its_row_before_it_is_killed(
    launched: Callable[..., Job], manager: YarnRm, cluster: YarnBackend, connected: Connect
) -> None:
    job = launched()
    name = (job.handle or {})["application"]
    manager.apps[name] |= {"state": "FINISHED", "finalStatus": "SUCCEEDED"}
    assert cluster.stop(job, grace_s=5)
    assert manager.killed == []
    with connected() as connection:
        assert launches.requests(connection, row_of(connected, "t1").id).end
    manager.apps[name] |= {"state": "RUNNING", "finalStatus": "UNDEFINED"}
    assert cluster.stop(job, grace_s=0.1)
    assert manager.killed == [name]


def test_a_kill_that_is_refused_or_not_confirmed_is_not_a_death(
    launched: Callable[..., Job], manager: YarnRm, cluster: YarnBackend
) -> None:
    job = launched()
    name = (job.handle or {})["application"]
    manager.refusals[f"PUT /apps/{name}/state"] = (403, {"RemoteException": {"message": "User may not"}})
    assert not cluster.kill(job)
    manager.refusals[f"PUT /apps/{name}/state"] = (202, {"state": "RUNNING"})
    assert not cluster.kill(job)
    manager.refusals.clear()
    manager.apps.clear()
    assert not cluster.kill(job), "forgotten is not dead"


def test_a_user_without_a_name_can_kill(
    launched: Callable[..., Job], manager: YarnRm, cluster: YarnBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = launched()
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_123_456)
    assert cluster.kill(job)
    assert manager.killed == [(job.handle or {})["application"]]


def test_a_driver_that_the_registry_s_launches_do_not_have_is_lost(cluster: YarnBackend) -> None:
    [job] = cluster.find([Known("big", "t9", {"application": "application_1_0001"}, "")])
    assert (job.life, job.lost) == (Life.UNKNOWN, "the registry has no record of its launch")
