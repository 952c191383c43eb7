"""The real stack, as small as it gets (PostgreSQL under its supervisor), and what can happen to it.

Initialising a home takes many times as long as starting it again, and a start several seconds of CPU: the tests have
one home, one at a time, and what happens to a running stack happens to one after the other.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import psycopg2
import pytest
from desk import here
from pyiceberg.catalog import load_catalog

from lakeward import jars
from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.connectors.spark import connect_server
from lakeward.platform import ports
from lakeward.platform.errors import LakewardError, Refused, Unhealthy
from lakeward.platform.runtime import CATALOG, Home, Project, Runtime
from lakeward.stack import session
from lakeward.stack.stack import Stack
from lakeward.stack.state import Process, StackState

ONLY = ["postgres"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a home, in which some stack may have been up before."""
    jars.ensure()
    return tmp_path_factory.mktemp("stack")


@contextmanager
def below(folder: Path) -> Iterator[Stack]:
    """The stack of a folder, stopped at the end."""
    made = Stack(Project(folder / "project"), Home(folder / "home"))
    try:
        yield made
    finally:
        made.down(None, lambda line: None)


@pytest.fixture
def stack(home: Path) -> Iterator[Stack]:
    """The stack of the shared home, stopped."""
    with below(home) as made:
        yield made


def up(stack: Stack) -> int:
    """Bring PostgreSQL up; returns its pid."""
    stack.up(ONLY)
    return pid_of(stack)


def pid_of(stack: Stack) -> int:
    [part] = stack.status()
    assert part.pid is not None, part
    return part.pid


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for a condition, bounded."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def ask(stack: Stack, statement: str, database: str = "lakeward", user: str = "lakeward") -> list[tuple[object, ...]]:
    runtime = Runtime.load(stack.home.runtime_file)
    how = {"host": runtime.lake.host, "port": runtime.lake.port, "passfile": str(runtime.pgpass)}
    with closing(psycopg2.connect(dbname=database, user=user, **how)) as link, link.cursor() as cursor:
        cursor.execute(statement)
        rows = cursor.fetchall() if cursor.description else []
        link.commit()
        return rows


def test_a_stack_goes_on_after_stops_and_kills_and_nothing_of_it_is_left_or_lost(stack: Stack) -> None:
    lines = list[str]()
    found = stack.up(ONLY, None, lines.append)

    assert set(found) == {"home", "postgres", "timings_s"}
    assert set(found["postgres"]["databases"]) == {"airflow", "catalog", "lakeward", "served"}
    assert set(found["timings_s"]) == {"postgres", "total"}
    assert len([line for line in lines if line.startswith("postgres ")]) == 1, lines
    password = Path(found["postgres"]["password_file"]).read_text().strip()
    with (
        closing(
            psycopg2.connect(
                host=found["postgres"]["host"],
                port=found["postgres"]["port"],
                user="lakeward",
                password=password,
                dbname="lakeward",
            ),
        ) as link,
        link.cursor() as cursor,
    ):
        cursor.execute("SELECT count(*) FROM streams")
        assert cursor.fetchone() == (0,), "the registry's migrations ran"
    assert ask(stack, "SELECT count(*) FROM iceberg_tables", "catalog", "catalog") == [(0,)]
    first = pid_of(stack)
    assert up(stack) == first, "a second up starts nothing"
    [part] = stack.status()
    assert (part.name, part.state) == ("postgres", "up")
    assert part.pss_bytes and part.pss_bytes > 1_000_000
    assert part.log.exists()
    no_secret_on_a_command_line(stack)

    # A part that is killed comes back by itself, with its data.
    ask(stack, "CREATE TABLE kept AS SELECT 7 AS x")
    os.kill(first, signal.SIGKILL)
    until(lambda: (part := stack.status()[0]).state == "up" and part.pid != first)
    assert ask(stack, "SELECT x FROM kept") == [(7,)]

    # Drivers are stopped between Airflow and the databases: one that does not end keeps PostgreSQL.
    answered: list[object] = []

    def stop_drivers() -> None:
        answered.extend(ask(stack, "SELECT 1"))
        raise LakewardError("a driver does not end")

    with pytest.raises(LakewardError, match="does not end"):
        stack.down(stop_drivers, lambda line: None)
    assert answered == [(1,)], "PostgreSQL still answers while drivers finish their batch"
    last = pid_of(stack)
    assert psutil.pid_exists(last), "and it is not taken away from a driver that goes on"

    # Down ends everything, and twice is as good as once.
    supervisor, port = StackState.load(stack.home).supervisor, StackState.load(stack.home).ports["postgres"]
    assert supervisor is not None
    stack.down(None, lambda line: None)
    assert session.members(supervisor) == []
    assert not psutil.pid_exists(last) or psutil.Process(last).status() == psutil.STATUS_ZOMBIE
    assert [part.state for part in stack.status()] == ["down"]
    assert stack.down(None, lambda line: None) == {}, "a second down has nothing to do"

    # A port that somebody took meanwhile is avoided; what was written is there.
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((ports.HOST, port))
        other.listen()
        orphan = up(stack)
        assert StackState.load(stack.home).ports["postgres"] != port
        assert ask(stack, "SELECT x FROM kept") == [(7,)], "runtime.json and pgpass follow the port"
        assert ports.answers(port), "the other program was left alone"

    # After a kill of the supervisor the next up starts afresh, and down ends what another one leaves.
    killed = supervisor_killed(stack)
    assert [part.state for part in stack.status()] == ["down"]
    assert up(stack) != orphan
    assert session.members(killed) == [], "the orphan was ended, not left beside the new one"
    assert ask(stack, "SELECT x FROM kept") == [(7,)]
    killed = supervisor_killed(stack)
    stack.down(None, lambda line: None)
    assert session.members(killed) == []


def supervisor_killed(stack: Stack) -> Process:
    """Kill the supervisor alone."""
    killed = StackState.load(stack.home).supervisor
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    until(lambda: not killed.alive())
    return killed


def no_secret_on_a_command_line(stack: Stack) -> None:
    """Nor in a file that others may read."""
    secrets = {
        file.read_text().strip() for file in stack.home.secrets.iterdir() if file.suffix in {".password", ".token"}
    }
    supervisor = StackState.load(stack.home).supervisor
    assert supervisor is not None
    lines = [" ".join(process.cmdline()) for process in session.members(supervisor)]
    assert len(secrets) >= 3
    assert len(lines) >= 2
    assert not [line for line in lines for secret in secrets if secret in line]
    written = [*stack.home.secrets.iterdir(), *(stack.home.root / "supervisor").glob("*.json"), stack.home.runtime_file]
    assert len(written) >= 8
    assert not [file for file in written if file.stat().st_mode & 0o077]


def test_a_part_that_cannot_start_names_its_log_and_last_lines(stack: Stack) -> None:
    if not (stack.home.root / "postgres" / "data").exists():
        up(stack)
        stack.down(None, lambda line: None)
    control = stack.home.root / "postgres" / "data" / "global" / "pg_control"
    away = control.rename(stack.home.root / "pg_control")
    try:
        with pytest.raises(Unhealthy, match="postgres does not start") as error:
            stack.up(ONLY)
    finally:
        stack.down(None, lambda line: None)
        away.rename(control)  # other tests have this home
    assert str(stack.home.logs / "postgres.log") in error.value.why
    assert "pg_control" in error.value.why
    assert "lakeward stack down" in error.value.next


@pytest.mark.campaign
def test_two_stacks_live_side_by_side(stack: Stack, tmp_path: Path) -> None:
    other = Stack(Project(tmp_path / "project"), Home(tmp_path / "other"))
    try:
        first, second = up(stack), up(other)
        assert first != second
        other.down(None, lambda line: None)
        assert pid_of(stack) == first
    finally:
        other.down(None, lambda line: None)


def command(stack: Stack, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real command line, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "from lakeward.cli.app import main; main()", *words,
         "--home", str(stack.home.root), "--project", str(stack.project.root)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_command_line_prints_one_json_and_notes_beside_it(stack: Stack) -> None:
    done = command(stack, "stack", "up", "--only", "postgres", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["postgres"]["user"] == "lakeward"
    assert "postgres" in done.stderr
    place = ["--home", str(stack.home.root), "--project", str(stack.project.root)]
    code, status = here(["stack", "status", "-o", "json", *place], more=True)
    assert code == 0, status
    [part] = json.loads(status)["parts"]
    assert set(part) == {"name", "state", "pid", "since", "pss_bytes", "log"}
    doctor = command(stack, "doctor", "-o", "json")
    checks = {check["name"]: check for check in json.loads(doctor.stdout)["checks"]}
    assert checks["postgres"]["ok"] and checks["java"]["ok"] and checks["jars"]["ok"]
    assert command(stack, "stack", "down", "-o", "json").returncode == 0
    assert here(["stack", "status", *place], more=True)[0] == 3
    assert here(["stack", "up", "--only", "postgers", *place], more=True)[0] == 2


def test_an_old_java_stops_the_start_before_anything_runs(stack: Stack, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    path = os.pathsep.join([str(java.parent), os.environ["PATH"]])
    done = command(stack, "stack", "up", "--only", "postgres", PATH=path, JAVA_HOME="")
    assert done.returncode == 3
    assert "Java 11 is too old" in done.stderr
    assert not StackState.load(stack.home).running
    doctor = command(stack, "doctor", "-o", "json", PATH=path, JAVA_HOME="")
    assert doctor.returncode == 3
    [check] = [check for check in json.loads(doctor.stdout)["checks"] if check["name"] == "java"]
    assert not check["ok"] and check["next"]


def test_a_changed_jar_stops_the_start(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path(shutil.copytree(jars.folder(), tmp_path / "jars"))
    victim = copy / "spark" / "commons-pool2-2.12.1.jar"
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    monkeypatch.setenv("LAKEWARD_JARS", str(copy))
    with pytest.raises(Refused, match="commons-pool2"):
        stack.up(ONLY)
    assert not StackState.load(stack.home).running


CLIENT = """
import os
from pyspark.sql.connect.session import SparkSession
spark = SparkSession.builder.remote(os.environ["REMOTE"]).create()
spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.ns")
spark.sql("CREATE TABLE lake.ns.t USING iceberg AS SELECT 7 AS x")
print([row.x for row in spark.sql("SELECT x FROM lake.ns.t").collect()])
spark.stop()
"""


def test_spark_connect_serves_the_lake_to_whoever_has_the_token(stack: Stack) -> None:
    found = stack.up(["connect"])
    assert {part.name: part.state for part in stack.status()} == {"postgres": "up", "connect": "up"}
    remote, token = found["connect"]["remote"], Path(found["connect"]["token_file"]).read_text().strip()
    assert not connect_server.answers(remote.removeprefix("sc://"), "another token")

    done = subprocess.run(
        [sys.executable, "-c", CLIENT], env={**os.environ, "REMOTE": f"{remote}/;token={token}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "[7]", done.stderr

    # The same table without a JVM, by the same name.
    runtime = Runtime.load(stack.home.runtime_file)
    lake = load_catalog(CATALOG, **pyiceberg_properties(runtime.lake, runtime.pgpass))
    assert lake.load_table("ns.t").scan().to_arrow().to_pydict() == {"x": [7]}
    assert ask(stack, "SELECT iceberg_type FROM iceberg_tables", "catalog", "catalog") == [("TABLE",)]
    lake.drop_table("ns.t")  # another test has this catalog
    lake.close()
