"""Executors on a real Spark standalone cluster: a master, a worker, and executors in JVMs of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from spark_cluster import SparkCluster

from lakeward.spec.model.driver_conf import conf

pytestmark = pytest.mark.timeout(1800)  # a bound for a hang; a busy machine may need minutes

SECRET = "of-this-cluster-alone"
SLOW = """\
import os
import time

def mark(n):
    if n == {last}:
        open({entered!r} + str(os.getpid()), "w").close()
        while os.path.exists({held!r}):
            time.sleep(0.1)
    return f"row {{n}}"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = SparkCluster(folder, SECRET)
    yield made.start()
    made.end()


def tell(world: Any, home: Path) -> None:
    """Give the driver the secret of the cluster."""
    secret = home / "spark" / f"{world.name}.secret"
    secret.parent.mkdir(mode=0o700)
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)


@pytest.mark.campaign(held_by="tests/spark/driver/test_one_pass.py::test_figures_that_are_spoiled_are_found")
@pytest.mark.parametrize(
    "alone",
    [False, True],
)
def test_a_stream_lands_once_through_executors_that_die_and_workers_and_a_driver_that_do(
    world: Any, simple: Callable[..., Any], cluster: SparkCluster, tmp_path: Path, alone: bool
) -> None:
    """An executor dies in the middle of a batch with its worker, or `alone` before it; then the driver has a successor.

    That what a killed driver left lands once is the commit protocol's, whoever computes: `test_exactly_once.py`.
    """
    topic, table, stream = world.kafka.create_topic(), f"{world.name}.landed", f"{world.name}_s"
    held, entered = tmp_path / "held", tmp_path / "entered"
    tell(world, tmp_path)
    code = SLOW.format(last=799, entered=f"{entered}-", held=str(held))
    document = simple(
        stream, topic, table,
        transform={
            "sql": "SELECT n, s, mark(n) AS marked, _kafka_topic, _kafka_partition, _kafka_offset FROM source",
            "udfs": {"mark": {"python": "slow:mark", "returns": "STRING"}},
            "code": {"slow.py": code},
        },
    )  # fmt: skip
    world.deploy(document)
    # A folder that only the driver sees: executors work in other folders, below which there is no such place.
    out, blind = f"/proc/self/cwd{tmp_path}/out", f"{world.name}_blind"
    world.deploy(simple(blind, topic, table, sink={"files": {"path": out, "format": "json"}}))
    world.numbers(topic, range(300))

    settings = cluster.driver()
    driver = world.launch(conf=conf([document], settings))
    world.wait_landed(table, stream, 300)
    [first] = cluster.executors()
    blocked = world.wait_for("the block", lambda: world.stream(blind).blocked)
    assert blocked["reason"] == "config"
    assert f"The executors of stream {blind} do not share the sink's folder with its driver" in blocked["what"]
    assert f"{out}: java.io.FileNotFoundException" in blocked["why"]
    assert list((tmp_path / "out").iterdir()) == []
    assert SECRET not in " ".join(first.cmdline())
    for each in psutil.Process(driver.pid).children(recursive=True):
        with suppress(psutil.Error):  # one that ended meanwhile
            assert SECRET not in " ".join(each.cmdline())

    # An executor is lost in the middle of a batch: its tasks are tried again on the next one.
    held.touch()
    world.numbers(topic, range(300, 800))
    [entry, *_] = world.wait_for("the batch", lambda: list(tmp_path.glob("entered-*")))
    above = psutil.Process(int(entry.name.removeprefix("entered-"))).parents()
    assert first.pid in [each.pid for each in above], "the function of the project's own runs on the executor"
    if alone:
        first.kill()
        world.wait_for("another executor", lambda: [each for each in cluster.executors() if each.pid != first.pid])
        held.unlink()
        world.wait_landed(table, stream, 800)

    # The worker is killed: its executor goes with it, and the next worker gets one.
    its = cluster.executors()
    cluster.kill_worker()
    world.wait_for("the end of its executors", lambda: not any(each.is_running() for each in its))
    world.numbers(topic, range(800, 900))
    cluster.start_worker()
    held.unlink(missing_ok=True)
    world.wait_landed(table, stream, 900)

    # The driver is killed: nobody tells its executors, and they go.
    driver.kill()
    world.wait_for("the end of the executors", lambda: not cluster.executors())
    if alone:
        world.numbers(topic, range(900, 1000))
        world.forget_leases()
        again = world.launch(conf=conf([document], settings))
        world.wait_landed(table, stream, 1000)
        assert again.terminate() == 0, again.said()
        assert again.events("stream stopped")[0]["at_a_boundary"] is True
        world.wait_for("the end of the last executor", lambda: not cluster.executors())
    landed, sent = world.rows(table), range(1000 if alone else 900)
    assert sorted(row["n"] for row in landed) == list(sent)
    assert {row["marked"] for row in landed} == {f"row {n}" for n in sent}
    for each in world.started:
        for file in each.launch.folder.rglob("*"):
            assert not file.is_file() or SECRET not in file.read_text(errors="replace"), f"the secret stands in {file}"


@pytest.mark.campaign(
    held_by="tests/unit/driver/test_executors.py::"
    "test_a_day_of_load_stays_within_its_limit_with_fewer_executors_than_its_peak_needs"
)
def test_executors_follow_the_lag_and_every_record_lands_once(
    world: Any, simple: Callable[..., Any], cluster: SparkCluster, tmp_path: Path
) -> None:
    """A stream that is up to date for five minutes keeps one executor; a backlog brings the second one back."""
    tell(world, tmp_path)
    topic, table, stream = world.kafka.create_topic(), f"{world.name}.landed", f"{world.name}_s"
    document = simple(
        stream, topic, table, trigger={"every": "2s"}, limits={"freshness": "30s"},
        source={"kafka": {"topics": [topic], "max_offsets_per_trigger": 50}},
    )  # fmt: skip
    world.deploy(document)
    settings = cluster.driver()
    executors = settings.executors.model_copy(update={"min": 1, "max": 2, "by": "lag"})
    world.numbers(topic, range(50))
    driver = world.launch(conf=conf([document], settings.model_copy(update={"executors": executors})))
    world.wait_landed(table, stream, 50)
    assert len(cluster.executors()) == 2, "what waits is not known at the start"
    world.numbers(topic, range(50, 100))
    world.wait_for("the release of one", lambda: len(cluster.executors()) == 1, timeout_s=900)
    world.wait_landed(table, stream, 100)
    world.numbers(topic, range(100, 2000))
    world.wait_for("its return", lambda: len(cluster.executors()) == 2, timeout_s=300)
    world.wait_landed(table, stream, 2000)
    assert driver.terminate() == 0, driver.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(2000))
    resized = [(each["before"], each["executors"]) for each in driver.events("executors resized")]
    assert resized[:2] == [(2, 1), (1, 2)]
