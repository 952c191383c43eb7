"""`engine: submit`: a table maintained on a Spark application of its own, which ends with whoever asked for it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import interpretation
import psutil
import pytest
import yaml
from spark_cluster import SparkCluster

from lakeward.connectors.spark import connect
from lakeward.connectors.spark.application import application
from lakeward.connectors.spark.master import secret_file
from lakeward.platform import private
from lakeward.platform.errors import DependencyDown, SpecError, Unhealthy
from lakeward.platform.runtime import Runtime
from lakeward.registry import maintenance
from lakeward.spec.model.settings import Driver
from lakeward.tables import run
from lakeward.tables.act.server import Statements
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.maintain import maintain_table

POLICY = """
    manifests: {max_manifests: 1, every: 0s}
policies:
  - {match: maintained.*, engine: submit}
"""
HOLD = """
import sys
from pathlib import Path
from lakeward.platform import private
from lakeward.connectors.spark.application import application
from lakeward.connectors.spark.master import secret_file
from lakeward.connectors.spark.connect import session
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.settings import Driver
small = Driver(compiler="quick")
with application(Runtime.load(Path(sys.argv[1])), "maintenance", small) as mine, session(mine.runtime) as spark:
    print(mine.runtime.model_dump_json(), flush=True)
    spark.sql("SELECT java_method('java.lang.Thread', 'sleep', 600000L + id) FROM range(1)").collect()
"""


@pytest.fixture
def alone(site: MaintenanceContext) -> MaintenanceContext:
    """A project whose tables are maintained on an application of their own, in a deployment without a warm server."""
    file = site.project.tables_file
    file.write_text(file.read_text() + POLICY)
    small = {"cores": 1, "memory": "768m", "compiler": "quick", "spark": interpretation.of_the_gate()}
    site.project.settings_file.write_text(yaml.safe_dump({"drivers": {"maintenance": small}}))
    return MaintenanceContext.of(site.runtime.model_copy(update={"connect": None}), site.project)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that tries a dead server again once, not for twelve seconds."""
    monkeypatch.setattr(connect, "_RETRIES", 1)


def listeners(port: int) -> list[psutil.Process]:
    """The processes that listen on a port of loopback."""
    found = (each for each in psutil.net_connections(kind="tcp") if each.status == psutil.CONN_LISTEN)
    return [psutil.Process(each.pid) for each in found if each.laddr.port == port and each.pid]


def applications() -> list[psutil.Process]:
    """What this process started of applications of their own, and still runs."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # gone meanwhile
            if any("lakeward-application-" in part for part in each.cmdline()):
                found.append(each)
    return found


def test_a_table_is_maintained_on_its_own_application_and_its_end_in_the_middle_is_reported_by_its_own_words(
    alone, at_once, make_table
):
    table = make_table()
    table.append(times=5)
    rows, heads, killed = table.rows(), [], []

    class Killed(Statements):
        """Compacts; the application is killed before manifests are rewritten."""

        def execute(self, statement: str) -> list[dict[str, object]]:
            if "rewrite_manifests" in statement:
                heads.append(table.head())
                killed.extend(each for each in applications() if each.name() == "java")
                for each in killed:
                    each.kill()
                psutil.wait_procs(killed, timeout=30)
            return super().execute(statement)

    compact, manifests = maintain_table(alone, table.name, ["compact", "manifests"], engine=Killed)["actions"]
    assert (compact["action"], compact["result"]) == ("compact", "done"), compact
    assert compact["cpu_s"] > 0
    assert len(killed) == 1
    assert (manifests["action"], manifests["result"]) == ("manifests", "failed"), manifests
    assert "its Spark application ended (exit code 137)" in manifests["why"]
    assert heads == [table.head()]
    assert (table.rows(), table.files()) == (rows, 2)
    assert applications() == []
    with alone.registry() as connection:
        assert maintenance.unfinished_actions(connection, table.name) == []


def test_the_engine_of_one_run_wins_over_the_policy(alone, site, make_table):
    table = make_table()
    table.append(times=4)
    done = maintain_table(site, table.name, ["compact"], on="connect")
    assert done["actions"][0]["result"] == "done"
    table.append(times=4)
    with pytest.raises(Exception, match="has no Spark Connect server"):
        run.maintain(alone.runtime, alone.project, table.name, ["compact"], engine="connect")


def test_nothing_is_started_where_nothing_is_due(alone, make_table, monkeypatch):
    table = make_table()
    table.append()
    alone.project.settings_file.write_text("drivers: {maintenance: {cores: many}}\n")
    assert run.maintain(alone.runtime, alone.project, table.name, ["compact"])["actions"] == []
    table.append(times=5)
    with pytest.raises(SpecError, match=r"conf/lakeward.yaml has 1 problem") as told:
        run.maintain(alone.runtime, alone.project, table.name, ["compact"])
    assert "lakeward.yaml:1" in told.value.why


@pytest.mark.campaign(
    held_by="test_a_table_is_maintained_on_its_own_application_and_its_end_in_the_middle_is_reported_by_its_own_words"
)
def test_executors_of_a_cluster_do_the_work_and_are_given_back(site, make_table, tmp_path_factory):
    table = make_table()
    table.append(times=4)
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"), secret="of the cluster".replace(" ", "-")).start()
    try:
        driver = cluster.driver().model_dump(mode="json", exclude_unset=True)
        site.project.settings_file.write_text(yaml.safe_dump({"drivers": {"maintenance": driver}}))
        file = secret_file(site.runtime, "maintenance")
        with pytest.raises(SpecError, match="cannot authenticate to its Spark cluster") as told:
            maintain_table(site, table.name, ["compact"], on="submit")
        assert str(file) in told.value.why
        private.write(private.folder(file.parent) / file.name, cluster.secret)
        seen: list[psutil.Process] = []

        class Watched(Statements):
            def execute(self, statement: str) -> list[dict[str, object]]:
                rows = super().execute(statement)
                seen.extend(cluster.executors())
                return rows

        done = maintain_table(site, table.name, ["compact"], on="submit", engine=Watched)["actions"]
        assert [(each["action"], each["result"]) for each in done] == [("compact", "done")]
        assert len(seen) == 1
        assert not psutil.wait_procs(seen, timeout=30)[1]
        lines = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
        assert not any(cluster.secret in line for line in lines)
    finally:
        cluster.end()


@pytest.fixture
def held(alone: MaintenanceContext, tmp_path: Path) -> Iterator[tuple[Runtime, subprocess.Popen[str]]]:
    """An application that another process started and uses: its runtime, and that process."""
    file = tmp_path / "runtime.json"
    file.write_text(alone.runtime.model_dump_json())
    starter = subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    try:
        yield Runtime.model_validate_json(starter.stdout.readline()), starter
    finally:
        starter.kill()
        starter.wait()
        starter.stdout.close()


@pytest.mark.campaign(
    held_by="test_a_table_is_maintained_on_its_own_application_and_its_end_in_the_middle_is_reported_by_its_own_words"
)
def test_an_application_goes_with_its_starter_and_a_server_that_dies_in_the_middle_is_reported(
    held, at_once, site, make_table
):
    runtime, starter = held
    servers = listeners(int(runtime.connect.rpartition(":")[2]))
    assert len(servers) == 1
    table = make_table()
    table.append(times=4)
    before, left = table.head(), []

    class Killed(Statements):
        def execute(self, statement: str) -> list[dict[str, object]]:
            starter.send_signal(signal.SIGKILL)
            left.extend(psutil.wait_procs(servers, timeout=30)[1])
            return super().execute(statement)

    warm = MaintenanceContext.of(runtime, site.project)
    entry = maintain_table(warm, table.name, ["compact"], on="connect", engine=Killed)["actions"][0]
    assert left == [], "it outlives its starter"
    assert entry["result"] == "failed"
    assert "the Spark Connect server stopped during the statement (localhost:" in entry["why"]
    assert "nothing was rewritten" in entry["why"]
    assert table.head() == before
    with pytest.raises(DependencyDown, match="does not answer"):
        maintain_table(warm, table.name, ["compact"], on="connect")
    with site.registry() as connection:
        assert maintenance.unfinished_actions(connection, table.name) == []
    assert maintain_table(site, table.name, ["compact"], on="connect")["actions"][0]["result"] == "done"


@pytest.mark.parametrize(
    ("driver", "error", "words"),
    [
        ({"compiler": "quick", "spark": {"spark.memory.fraction": "7"}}, Unhealthy, "memory.fraction"),
        (
            {"compiler": "quick", "backend": "standalone", "master": "spark://127.0.0.1:1"},
            DependencyDown,
            "127.0.0.1:1",
        ),
    ],
)
def test_one_that_does_not_start_says_why(connect_server: Runtime, driver, error, words):
    with pytest.raises(error) as told, application(connect_server, "maintenance", Driver.model_validate(driver)):
        pass
    assert words in f"{told.value.what} {told.value.why}"
