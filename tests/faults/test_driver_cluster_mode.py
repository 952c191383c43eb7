"""Drivers in cluster mode on a real Spark standalone cluster: a worker starts them, and nobody shares their folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spark_cluster import SparkCluster
from sqlalchemy import text

from lakeward.platform.runtime import Launch, Runtime
from lakeward.registry import drivers, launches
from lakeward.spec.model.driver_conf import conf, place
from lakeward.spec.model.settings import Settings
from lakeward.supervision import launch_log, observe
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.context import backend_of, registry_of
from lakeward.supervision.reconcile import Summary, reconcile_once

pytestmark = pytest.mark.timeout(1800)  # a bound for a hang; a busy machine may need minutes


@pytest.fixture
def cluster(tmp_path: Path, world: Any) -> Iterator[SparkCluster]:
    """Its daemons know where the registry is; whoever reconciles has files of its own for that."""
    folder = tmp_path / "cluster"
    secrets = folder / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "registry.url").write_text(world.url)
    environment = {"LAKEWARD_REGISTRY_URL_FILE": str(secrets / "registry.url"), "PGPASSFILE": str(world.pgpass)}
    made = SparkCluster(folder, rest=True, environment=environment)
    yield made.start()
    made.end()


def host(world: Any, name: str) -> Runtime:
    """A machine that reconciles: its home is its own, and no driver's folder is in it."""
    home = world.folder / name
    home.mkdir()
    (home / "registry.url").write_text(world.url)
    return world.runtime.model_copy(
        update={"registry_url_file": home / "registry.url", "drivers": home / "drivers"}
    )  # fmt: skip


def reconcile(runtime: Runtime, settings: Settings) -> Summary:
    return reconcile_once(
        registry_of(runtime), runtime, holder="test", settings=settings, chance=lambda: 0.0, startup_grace_s=0.0
    )


def job_of(world: Any, runtime: Runtime) -> Job:
    """The newest launch as a host sees it."""
    with world.connect() as connection:
        facts = observe.read(connection)
    token = facts.drivers[world.name].token
    return next(job for job in backend_of(runtime).find(facts.known()) if job.token == token)


@pytest.mark.campaign(
    held_by="tests/unit/supervision/backends/test_standalone.py::"
    "test_a_starter_that_died_after_its_submission_leaves_no_job_until_the_driver_says_where_it_is"
)
def test_a_driver_that_a_worker_started_is_found_judged_and_stopped_by_two_hosts(
    world: Any, simple: Callable[..., Any], cluster: SparkCluster
) -> None:
    topic, table, stream = world.kafka.create_topic(), f"{world.name}.landed", f"{world.name}_s"
    document = simple(stream, topic, table)
    world.deploy(document)
    world.numbers(topic, range(300))
    one, two = host(world, "one"), host(world, "two")
    entry = cluster.driver_in_cluster_mode()
    settings = Settings(drivers={world.name: entry})

    # Its starter dies between the submission and its record: the driver records itself, and nothing is started twice.
    token = "a-token-that-must-not-be-seen-anywhere"
    with world.connect() as connection:
        assert drivers.record_intent(connection, world.name, token=token, previous=None, backend="standalone")
    launch = Launch(
        driver=world.name, token=token, folder=one.drivers, runtime=one, conf=conf([document], entry),
        cluster=place(entry),
    )  # fmt: skip
    begun = backend_of(one).start(launch)
    with world.connect() as connection:
        connection.execute(text("UPDATE launches SET handle = NULL"))
    assert reconcile(two, settings).launched == []
    world.wait_landed(table, stream, 300)
    for runtime in (one, two):
        assert reconcile(runtime, settings).done == ()
        job = job_of(world, runtime)
        assert (job.life, job.handle) == (Life.ALIVE, begun.handle)
    assert not one.drivers.joinpath(world.name).exists(), "the driver has no folder on a host that reconciles"
    visible = [" ".join(each.cmdline()) + json.dumps(each.environ()) for each in cluster.drivers()]
    assert len(visible) == 2
    assert not any(token in each for each in visible)

    # The JVM is killed: its Python process ends with it, says why in the registry, and another host launches again.
    first = cluster.drivers()
    [jvm] = [each for each in first if each.name() == "java"]
    dump = backend_of(two).dump(job_of(world, two))
    assert dump is not None
    with world.connect() as connection:
        dumped = connection.execute(text("SELECT dump FROM launches")).scalar_one()
        assert "control" in dumped and "stream execution thread" in dumped
    jvm.kill()
    world.numbers(topic, range(300, 600))
    world.wait_for("the end of the driver", lambda: not any(each.is_running() for each in first))
    world.wait_for("the launch on the other host", lambda: reconcile(two, settings).launched)
    with world.connect() as connection:
        ended = launches.of_token(connection, token)
        failed = connection.execute(text("SELECT error FROM restarts ORDER BY at DESC LIMIT 1")).scalar_one()
        assert ended is not None and "lost its JVM" in str(ended.exit)
        assert "lost its JVM" in failed
        # Spark's start is in the log of the launch that failed; the newest one has no line yet.
        assert any("spark started" in line for line in tail_of(connection, world.name, stream, failed=True))
    world.wait_landed(table, stream, 600)

    # Stopped by the host that did not start it, at a batch boundary.
    last = cluster.drivers()
    assert backend_of(one).stop(job_of(world, one), grace_s=120)
    job = job_of(world, two)
    assert job.life is Life.GONE
    assert job.exit is not None and job.exit["exit_code"] == 0
    with world.connect() as connection:
        assert any("at_a_boundary=true" in line for line in tail_of(connection, world.name, stream))
    world.wait_for("the end of its processes", lambda: not any(each.is_running() for each in last))
    world.wait_for("the end of the executors", lambda: not cluster.executors())
    assert sorted(row["n"] for row in world.rows(table)) == list(range(600))
    for file in cluster.folder.rglob("*"):
        assert not file.is_file() or token not in file.read_text(errors="replace"), f"the token is in {file}"


def tail_of(connection: Any, driver: str, stream: str, *, failed: bool = False) -> list[str]:
    """The end of the log as a report shows it: of the newest launch, or of the one before that failed."""
    row = drivers.find(connection, driver)
    assert row is not None
    failed_at = connection.execute(text("SELECT max(at) FROM restarts")).scalar_one() if failed else None
    return launch_log.newest(connection, row, stream, failed_at)
