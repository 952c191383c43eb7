"""What a killed `stack up` or `stack down` leaves does not stop the next `stack up`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from services import running, wait

from lakeward import jars
from lakeward.platform import ports
from lakeward.platform.errors import Refused
from lakeward.platform.runtime import Home, Project
from lakeward.stack import down, service_user, session
from lakeward.stack.part import Part
from lakeward.stack.postgres import Postgres, environment
from lakeward.stack.program import Program
from lakeward.stack.services import PostgresPart
from lakeward.stack.site import StackContext
from lakeward.stack.stack import Stack
from lakeward.stack.state import DEFAULT_PORTS, Process, StackState
from lakeward.stack.supervisor import Supervisor
from lakeward.stack.up import Up

IGNORES_TERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); "


class Stubborn(Part):
    """A part that ends only by SIGKILL, two seconds after it was told to."""

    name = group = "stubborn"

    def program(self) -> Program:
        return Program([sys.executable, "-c", IGNORES_TERM + "time.sleep(600)"], {}, stop_wait_s=2)

    def healthy(self, since: Any) -> bool:
        return "ready" in self.log.read_text()


@pytest.fixture
def site(tmp_path: Path) -> StackContext:
    """A stack that never ran."""
    return StackContext(Project(tmp_path / "project"), Home(tmp_path / "home"), DEFAULT_PORTS, jars.find_java())


@pytest.fixture
def started(site: StackContext) -> Iterator[tuple[Stubborn, Supervisor, Process]]:
    """A part that runs, and its supervisor, recorded nowhere."""
    part, supervisor = Stubborn(site), Supervisor(site.home)
    site.home.logs.mkdir(parents=True)
    supervisor.write([part])
    process = supervisor.start()
    supervisor.launch(part.name)
    until(lambda: part.log.exists() and part.healthy(None))
    yield part, supervisor, process
    session.end(session.members(process), grace_s=0.1)


def until(so: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def up_of(site: StackContext, part: Part, state: StackState) -> Up:
    """A start of this one part."""
    made = Up(site, state, set(), None, lambda line: None)
    made.parts = [part]
    return made


def test_a_part_that_is_stopping_is_started_again(
    site: StackContext, started: tuple[Stubborn, Supervisor, Process]
) -> None:
    part, supervisor, process = started
    first = supervisor.observe()[part.name].pid
    supervisor.stop(part.name, wait=False)  # of a `stack down` that is killed now
    assert supervisor.observe()[part.name].state == "STOPPING"
    up_of(site, part, StackState(supervisor=process))._launch(part)
    until(lambda: supervisor.observe()[part.name].state == "RUNNING")
    assert supervisor.observe()[part.name].pid != first


def test_a_supervisor_that_is_ending_is_waited_for(
    site: StackContext, started: tuple[Stubborn, Supervisor, Process]
) -> None:
    part, supervisor, process = started
    threading.Thread(target=supervisor.shutdown).start()
    until(supervisor.ending)
    state = StackState(supervisor=process)
    made = up_of(site, part, state)
    made._supervise()
    assert not process.alive()
    assert state.supervisor is not None and state.supervisor.alive()
    down.down(site.home, None, lambda line: None)


def test_an_ending_supervisor_can_be_asked_again(started: tuple[Stubborn, Supervisor, Process]) -> None:
    _, supervisor, process = started
    threading.Thread(target=supervisor.shutdown).start()
    until(supervisor.ending)
    supervisor.shutdown()
    down.wait_for_end(process)
    assert not process.alive()


def test_an_unrecorded_supervisor_without_parts_is_ended(site: StackContext) -> None:
    site.home.logs.mkdir(parents=True)
    supervisor = Supervisor(site.home)
    supervisor.write([])
    process = supervisor.start()
    try:
        Stack(site.project, site.home)._end_unrecorded(StackState())
        assert not process.alive()
    finally:
        session.end(session.members(process))


def test_an_unrecorded_supervisor_with_parts_is_refused(
    site: StackContext, started: tuple[Stubborn, Supervisor, Process]
) -> None:
    _, _, process = started
    with pytest.raises(Refused, match="not recorded") as refused:
        Stack(site.project, site.home).up(["kafka"])
    assert str(process.pid) in refused.value.why
    assert "lakeward stack down" in refused.value.next


PRELUDE = """
import sys
from pathlib import Path
from lakeward import jars
from lakeward.platform.runtime import Home, Project
from lakeward.stack import airflow_parts, kafka, postgres
from lakeward.stack.site import StackContext
from lakeward.stack.supervisor import Supervisor

root, slow = Path(sys.argv[1]), Path(sys.argv[2])
site = StackContext(Project(root), Home(root), {"airflow": 1}, jars.find_java())
site.home.logs.mkdir(parents=True)
"""
STEPS = {
    "airflow db migrate": "airflow_parts.airflow_binary = lambda: str(slow); airflow_parts.migrate(site)",
    "initdb": 'postgres.binary = lambda name: slow; postgres.Postgres(root / "postgres", 1).initialise("secret")',
    "kafka format": 'kafka.Kafka(root / "kafka", 1, 2).initialise(jars.Java(slow, 17))',
    "supervisord": "sys.executable = str(slow); (root / 'supervisor').mkdir(); Supervisor(site.home).start()",
}


@pytest.mark.parametrize("step", sorted(STEPS))
def test_a_program_of_the_start_ends_with_it(step: str, tmp_path: Path) -> None:
    """Of the real functions, by a program that takes longer than the one that it stands for."""
    pid, slow = tmp_path / "pid", tmp_path / "slow"
    launched = f'case "$2" in lakeward.stack.launch) exec {sys.executable} "$@";; esac'  # what binds it
    slow.write_text(f"#!/bin/sh\n{launched}\necho $$ > {pid}\nexec sleep 600\n")
    slow.chmod(0o755)
    pid.touch(0o666)
    jars.ensure()
    ignoring = "import signal; signal.signal(signal.SIGQUIT, signal.SIG_IGN)\n"  # as a shell does for `lakeward .. &`
    program_text = ignoring + PRELUDE + STEPS[step]
    with subprocess.Popen([sys.executable, "-c", program_text, str(tmp_path), str(slow)]) as starting:
        until(lambda: pid.read_text() or starting.poll() is not None)
        program = psutil.Process(int(pid.read_text()))
        starting.kill()
    try:
        until(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE, 20)
    finally:
        if program.is_running():
            program.kill()


def test_what_a_killed_initdb_left_is_removed(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres", ports.any_free(), {"fsync": "off"})
    left = server.folder / f"new-{os.getpid()}"  # by a process of this number, before a restart of the machine
    left.mkdir(parents=True)
    (left / "PG_VERSION").write_text("18")
    (server.folder / "password-1").write_text("secret")
    assert server.initialise("secret")
    assert [file.name for file in server.folder.iterdir()] == ["data"]


def test_a_stale_pid_file_with_the_pid_of_another_program_is_removed(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres", ports.any_free(), {"fsync": "off"})
    server.initialise("secret")
    lock = server.data / "postmaster.pid"
    other = subprocess.Popen(service_user.wrap(["/bin/sleep", "600"], touching=[]))
    try:
        until(lambda: psutil.Process(other.pid).name() == "sleep")
        lock.write_text(f"{other.pid}\n{server.data}\n{int(time.time())}\n{server.port}\n\n127.0.0.1\n0 0\n")
        service_user.own(lock)
        server.release()
        with served(server, tmp_path / "log"):
            assert int(lock.read_text().split()[0]) != other.pid
            kept = lock.read_text()
            server.release()
            assert lock.read_text() == kept, "that of a running server stays"
    finally:
        other.kill()
        other.wait()


@contextmanager
def served(server: Postgres, log: Path) -> Iterator[None]:
    with running(server.command(bound=True), log, signal.SIGINT, environment()):
        wait(lambda: server.wait("secret"), log)
        yield


def test_a_database_that_was_just_created_is_closed_to_others(postgres: Any) -> None:
    server: Postgres = postgres._server
    with closing(server.connect("postgres", "postgres", password=postgres.admin_password)) as link:
        link.autocommit = True
        with link.cursor() as cursor:
            cursor.execute("CREATE DATABASE half_made")  # and the start was killed
    try:
        server.prepare(postgres.admin_password, {}, {"half_made": "postgres"})
        asked = server.connect("postgres", "postgres", password=postgres.admin_password)
        with closing(asked) as link, link.cursor() as cursor:
            cursor.execute("SELECT has_database_privilege('public', 'half_made', 'CONNECT')")
            assert cursor.fetchone() == (False,)
    finally:
        postgres.drop_database("half_made")


def test_a_new_cluster_is_not_taken_for_a_migrated_one(site: StackContext) -> None:
    """Recorded before the cluster is made: the start may be killed at any later step."""
    state = StackState(airflow_database="3.3.2")
    site.home.root.mkdir(parents=True)
    made = Up(site, state, set(), None, lambda line: None)

    class Killed(PostgresPart):
        def prepare(self) -> None:
            raise KeyboardInterrupt

    part = Killed(StackContext(site.project, site.home, {"postgres": ports.any_free()}, site.java))
    made.supervisor.write([])
    site.home.logs.mkdir(parents=True)
    state.supervisor = made.supervisor.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            made._postgres(part)
        assert StackState.load(site.home).airflow_database == ""
    finally:
        session.end(session.members(state.supervisor))
