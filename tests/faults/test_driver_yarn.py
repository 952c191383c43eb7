"""Drivers in cluster mode on a real YARN: Hadoop's own ResourceManager and NodeManager, as processes of this machine.

`make yarn-test` fetches their jars and runs this; it writes docs/reference/yarn-test.md.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from driver_site import DriverSite
from sqlalchemy import text
from yarn_cluster import YarnCluster

from lakeward.platform.runtime import Launch, Runtime
from lakeward.registry import drivers, launches
from lakeward.spec.model.driver_conf import conf, yarn
from lakeward.spec.model.settings import Settings
from lakeward.spec.model.types import Memory
from lakeward.supervision import observe
from lakeward.supervision.backends.base import Life
from lakeward.supervision.context import backend_of
from lakeward.supervision.decide import reconcile as decisions

KILLS = int(os.environ.get("LAKEWARD_YARN_KILLS", "10"))
AWAY_S = float(os.environ.get("LAKEWARD_YARN_AWAY_S", "30"))
EVIDENCE = os.environ.get("LAKEWARD_YARN_EVIDENCE", "")
TOKEN = "a-token-that-must-not-be-seen-anywhere"
pytestmark = [
    pytest.mark.campaign(
        held_by="tests/unit/supervision/backends/test_yarn.py"
        "::test_a_resource_manager_that_does_not_say_makes_drivers_unknown"
    ),
    pytest.mark.timeout(3600),  # a bound for a hang
    pytest.mark.skipif(not os.environ.get("LAKEWARD_YARN"), reason="LAKEWARD_YARN is not set (make yarn-test)"),
]


@dataclass(kw_only=True)
class Site(DriverSite):
    """A deployment whose drivers are on YARN, and two machines that reconcile."""

    cluster: YarnCluster
    secrets: Path
    document: Any


@pytest.fixture
def site(world: Any, simple: Callable[..., Any], tmp_path: Path) -> Iterator[Site]:
    cluster = YarnCluster(tmp_path / "yarn")
    cluster.folder.mkdir()
    secrets = tmp_path / "node"
    secrets.mkdir()
    (secrets / "registry.url").write_text(world.url)
    (secrets / "pgpass").write_text(world.pgpass.read_text())
    (secrets / "pgpass").chmod(0o600)
    try:
        cluster.start()
        topic, table, stream = world.kafka.create_topic(), f"{world.name}.landed", f"{world.name}_s"
        document = simple(stream, topic, table)
        world.deploy(document)
        settings = Settings(drivers={world.name: cluster.entry(secrets)})
        hosts = (_host(world, tmp_path / "one"), _host(world, tmp_path / "two"))
        yield Site(
            world, hosts, settings, topic, table, stream, EVIDENCE, cluster=cluster, secrets=secrets, document=document
        )
    finally:
        cluster.end()


def _host(world: Any, home: Path) -> Runtime:
    """A machine that reconciles: its home is its own, and no driver's folder is in it."""
    home.mkdir()
    (home / "registry.url").write_text(world.url)
    found: Runtime = world.runtime.model_copy(
        update={"registry_url_file": home / "registry.url", "drivers": home / "drivers"}
    )
    return found


def test_drivers_on_yarn_live_through_what_a_cluster_does_to_them(site: Site) -> None:
    site.note("hadoop", site.cluster.call("/info")["clusterInfo"]["hadoopVersion"])
    _started_by_one_who_died(site)
    _killed(site)
    _killed_through_yarn(site)
    _manager_away(site)
    _manager_without_memory(site)
    _bad_input(site)
    _stopped(site)


def _started_by_one_who_died(site: Site) -> None:
    """Its starter dies between the submission and its record: the tag finds the driver; nothing is started twice."""
    site.send(300)
    [(name, entry)] = site.settings.drivers.items()
    with site.world.connect() as connection:
        assert drivers.record_intent(connection, name, token=TOKEN, previous=None, backend="yarn")
    one = site.hosts[0]
    launch = Launch(
        driver=name, token=TOKEN, folder=one.drivers, runtime=one, conf=conf([site.document], entry), yarn=yarn(entry)
    )
    begun = backend_of(one).start(launch)
    with site.world.connect() as connection:
        connection.execute(text("UPDATE launches SET handle = NULL"))
    assert site.reconcile().launched == [] and site.reconcile().launched == []
    assert [site.job(host).handle for host in (0, 1)] == [begun.handle] * 2
    site.exact()
    assert site.token() == TOKEN
    assert not any((runtime.drivers / name).exists() for runtime in site.hosts), (
        "no host that reconciles has its folder"
    )
    shown = json.dumps(site.cluster.apps())
    for process in site.cluster.left():
        shown += " ".join(process.cmdline()) + json.dumps(process.environ())
    assert TOKEN not in shown and site.world.url not in shown
    for file in site.cluster.folder.rglob("*"):
        assert not file.is_file() or TOKEN not in file.read_text(errors="replace"), f"the token is in {file}"
    dump = backend_of(site.hosts[1]).dump(site.job(1))
    assert dump is not None
    site.note("starter_died", "found by its tag from both hosts, started once")


def _killed(site: Site) -> None:
    """SIGKILL of the application master's JVM, again and again."""
    noticed, committing = [], []
    for _ in range(KILLS):
        site.fresh()
        site.send(200)
        site.until("a batch", lambda: site.world.landed(site.table, site.stream) > site.sent - 200)
        token = site.token()
        [jvm] = site.cluster.masters()
        jvm.kill()
        begun = time.monotonic()
        site.until("a new launch", lambda before=token: site.token() != before)
        noticed.append(time.monotonic() - begun)
        site.send(100)
        site.until("rows of the new driver", site.landed)
        committing.append(time.monotonic() - begun)
        site.exact()
        site.note("kills", {
            "count": len(noticed), "relaunched_s": [round(each, 1) for each in noticed],
            "committing_s": [round(each, 1) for each in committing],
            "median_committing_s": round(statistics.median(committing), 1), "failure": site.failure(),
        })  # fmt: skip


def _killed_through_yarn(site: Site) -> None:
    """`yarn application -kill` by a person: another one goes on."""
    site.fresh()
    token = site.token()
    site.cluster.kill(str((site.job().handle or {})["application"]))
    site.until("a new launch", lambda: site.token() != token)
    with site.world.connect() as connection:
        row = launches.of_token(connection, token)
    assert row is not None and row.exit is not None
    site.send(100)
    site.exact()
    site.note("killed_through_yarn", row.exit)


def _manager_away(site: Site) -> None:
    """The ResourceManager is away: nothing is restarted, and the driver is known again afterwards."""
    token = site.token()
    before = {process.pid for process in site.cluster.masters()}
    site.cluster.stop_manager()
    end, passes, sent = time.monotonic() + AWAY_S, 0, 0
    while time.monotonic() < end:
        site.send(20)
        sent += 20
        summary = site.reconcile()
        assert not summary.launched and site.job().life is Life.UNKNOWN
        passes += 1
        time.sleep(2)
    site.world.wait_landed(site.table, site.stream, site.sent)
    site.cluster.start_manager()
    site.until("the driver is known again", lambda: site.job().life is Life.ALIVE)
    assert site.token() == token, "restarted because only the ResourceManager was away"
    assert {process.pid for process in site.cluster.masters()} == before
    site.exact()
    site.note("manager_away", {"seconds": AWAY_S, "passes": passes, "restarts": 0, "landed_meanwhile": sent})


def _manager_without_memory(site: Site) -> None:
    """The ResourceManager comes back without what it remembered: its driver ends, and another one goes on."""
    site.fresh()
    token = site.token()
    site.cluster.stop_manager()
    site.cluster.forget()
    site.cluster.start_manager()
    seen = site.job()
    site.until("a new launch", lambda: site.token() != token)
    site.send(100)
    site.exact()
    with site.world.connect() as connection:
        row = launches.of_token(connection, token)
    assert row is not None
    site.note("manager_without_memory", {"seen": f"{seen.life}: {seen.lost}", "exit": row.exit})


def _bad_input(site: Site) -> None:
    """What a person can get wrong: each has its words and code, nothing is lost and nothing is started twice."""
    [(name, entry)] = site.settings.drivers.items()

    def ended() -> None:
        """The driver is killed, so that the next pass launches one."""
        site.fresh()
        site.until("a driver that runs", lambda: site.cluster.masters())
        for process in site.cluster.masters():
            process.kill()
        site.world.wait_for("its application has ended", lambda: site.job().life is Life.GONE, 60)
        site.world.wait_for("its processes have ended", lambda: not site.cluster.masters(), 60)

    def fails(code: str, **changed: Any) -> str:
        settings = Settings(drivers={name: entry.model_copy(update=changed)})
        site.world.wait_for(code, lambda: (site.reconcile(settings), code in site.failure())[1], 300)
        found = site.failure()
        site.fresh()
        return found

    found = {}
    ended()
    found["queue unknown"] = fails("LW-2567", queue="nowhere")
    found["queue stopped"] = fails("LW-2567", queue="closed")
    found["larger than a container"] = fails("LW-2573", memory=Memory("9g"))
    found["no folder of Hadoop"] = fails("LW-2564", hadoop_conf="/nowhere")
    away = Settings(drivers={name: entry.model_copy(update={"resource_manager": "http://127.0.0.1:9"})})

    def unanswered() -> str:
        """The failure of a launch; if a pass noticed before a launch was due, the incident that it waits for."""
        launched = site.reconcile(away).launched
        assert not launched
        if "LW-2565" in site.failure():
            return site.failure()
        with site.world.connect() as connection:
            down = observe.read(connection).down.values()
        return next((words for words in down if re.search(r"//127\.0\.0\.1:9\b", words)), "")

    found["ResourceManager away"] = str(site.world.wait_for("its words", unanswered, 300))
    site.fresh()
    small = Settings(drivers={name: entry.model_copy(update={"queue": "small"})})

    def waiting() -> str:
        site.reconcile(small)
        words = site.job().waits
        return words if "LW-2569" in words else ""

    found["queue full"] = str(site.world.wait_for("LW-2569", waiting, 120))
    decisions.ROOM_S, patience = 2.0, decisions.ROOM_S  # what else takes three minutes
    try:
        site.world.wait_for("its failure", lambda: (site.reconcile(small), "LW-2569" in site.failure())[1], 120)
    finally:
        decisions.ROOM_S = patience
    site.fresh()
    site.until("a driver that runs", lambda: site.cluster.masters())
    site.send(100)
    site.exact()
    waits = [app for app in site.cluster.apps() if app["state"] in ("ACCEPTED", "RUNNING")]
    assert len(waits) == 1, "what waited is withdrawn"
    site.note("bad_input", found)


def _stopped(site: Site) -> None:
    """Stopped by the host that did not start it, at a batch boundary."""
    job = site.job(1)
    last = site.cluster.left()
    assert backend_of(site.hosts[1]).stop(job, grace_s=120)
    ended = site.job(0)
    assert ended.life is Life.GONE and ended.exit is not None and ended.exit["exit_code"] == 0
    site.world.wait_for("the end of its processes", lambda: not any(_runs(each) for each in last), 120)
    rows = [row["n"] for row in site.world.rows(site.table)]
    assert sorted(rows) == list(range(site.sent))
    site.note("rows", {"sent": site.sent, "landed": len(rows), "lost": 0, "doubled": 0})


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
