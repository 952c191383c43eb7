"""The local backend with real processes; the driver's place is taken by small programs."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import Lake, Launch, Runtime
from lakeward.supervision.backends import identity
from lakeward.supervision.backends.base import Job, Known, Life, launch_folder
from lakeward.supervision.backends.local import KEEP_LAUNCHES, LocalBackend

SLEEPS = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPS!r}]); {SLEEPS}"


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(
        registry_url_file=tmp_path / "registry.url",
        pgpass=tmp_path / "pgpass",
        lake=Lake(warehouse=str(tmp_path)),
        checkpoints=str(tmp_path),
        drivers=tmp_path / "drivers",
        jars=tmp_path,
    )


@pytest.fixture
def backend(runtime: Runtime, tmp_path: Path) -> Iterator[Callable[[str], LocalBackend]]:
    """A backend whose drivers run this code."""
    made: list[LocalBackend] = []

    def make(code: str) -> LocalBackend:
        script = tmp_path / f"driver{len(made)}.py"
        script.write_text(textwrap.dedent(code))
        made.append(LocalBackend(runtime.drivers, wrapper=(sys.executable, str(script))))
        return made[-1]

    yield make
    for one in made:
        for job in one.find():
            if job.life is not Life.GONE:
                one.kill(job)


@pytest.fixture
def launch(runtime: Runtime) -> Callable[..., Launch]:
    def make(driver: str = "nyc", token: str = "t1") -> Launch:
        return Launch(driver=driver, token=token, folder=launch_folder(runtime.drivers, driver), runtime=runtime)

    return make


def until(so: Callable[[], object], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not so():
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(0.02)


def only(jobs: list[Job]) -> Job:
    (job,) = jobs
    return job


def test_a_driver_is_a_session_leader_of_its_own_and_is_found_again(backend, launch) -> None:
    started = backend(SLEEPS).start(launch())
    assert started.handle is not None
    assert os.getsid(started.handle["pid"]) == started.handle["pid"]
    found = only(LocalBackend(backend(SLEEPS).drivers).find())  # another process would find the same
    assert (found.driver, found.token, found.life, found.handle) == ("nyc", "t1", Life.ALIVE, started.handle)


def test_the_launch_file_is_its_owners_alone(backend, launch) -> None:
    job = backend(SLEEPS).start(launch())
    assert stat.S_IMODE((Path(job.log) / "launch.json").stat().st_mode) == 0o600


def test_the_environment_is_clean(backend, launch, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "not for drivers")
    job = backend(
        """
        import json, os, pathlib, sys
        pathlib.Path(sys.argv[-1]).with_name("seen.json").write_text(json.dumps([dict(os.environ), os.getcwd()]))
        """
    ).start(launch())
    until((Path(job.log) / "seen.json").exists)
    until(lambda: (Path(job.log) / "seen.json").read_text())
    seen, folder = json.loads((Path(job.log) / "seen.json").read_text())
    assert set(seen) - {"LC_CTYPE"} <= {"PATH", "HOME", "LANG", "JAVA_HOME", "PGPASSFILE"}
    assert seen["PGPASSFILE"] == str(tmp_path / "pgpass")
    assert folder == "/"


def test_a_dead_driver_is_gone_with_its_last_words(backend, launch) -> None:
    one = backend(
        """
        import pathlib, sys
        pathlib.Path(sys.argv[-1]).with_name("exit.json").write_text('{"exit_code": 75}')
        sys.exit(75)
        """
    )
    one.start(launch())
    until(lambda: only(one.find()).life is Life.GONE)
    assert only(one.find()).exit == {"exit_code": 75}


def test_a_zombie_is_not_alive(backend, launch) -> None:
    one = backend("pass")
    job = one.start(launch())
    assert job.handle is not None
    until(lambda: identity.life(job.handle) is Life.GONE)  # nobody has waited for it yet


def test_a_starter_that_died_before_it_recorded_anything_leaves_a_driver_that_is_found(backend, launch) -> None:
    one = backend(SLEEPS)
    job = one.start(launch())
    (Path(job.log) / "process.json").unlink()
    until(lambda: only(one.find()).handle == job.handle)  # Linux shows no command line for an instant after the start


def test_a_launch_that_never_started_is_gone(backend, launch) -> None:
    planned = launch()
    planned.folder.mkdir(parents=True)
    planned.write(planned.folder / "launch.json")
    found = only(backend(SLEEPS).find())
    assert (found.life, found.handle) == (Life.GONE, None)


def test_what_else_is_in_the_folder_of_launches_is_no_launch(backend, launch) -> None:
    one = backend(SLEEPS)
    job = one.start(launch())
    drivers = Path(job.log).parents[1]
    (drivers / "README").write_text("not a driver")
    (drivers / "empty" / "20260101T000000-1").mkdir(parents=True)
    (drivers / "empty" / "notes.txt").write_text("not a launch")
    assert only(one.find()).handle == job.handle


def test_no_driver_was_ever_started_here(runtime) -> None:
    assert LocalBackend(runtime.drivers).find() == []
    runtime.drivers.write_text("a file where the folder belongs")
    with pytest.raises(DependencyDown, match="cannot be read"):
        LocalBackend(runtime.drivers).find()


def test_another_process_with_the_same_pid_is_not_the_driver(backend, launch) -> None:
    job = backend(SLEEPS).start(launch())
    assert job.handle is not None
    assert identity.life({**job.handle, "start_time": job.handle["start_time"] - 500}) is Life.GONE
    assert identity.life({**job.handle, "boot_id": "an earlier boot"}) is Life.GONE
    assert identity.life({**job.handle, "host": "another host"}) is Life.UNKNOWN
    assert not identity.signal_group({**job.handle, "boot_id": "an earlier boot"}, signal.SIGKILL)
    assert identity.life(job.handle) is Life.ALIVE


def test_what_a_dead_driver_started_is_a_remnant_until_it_is_killed(backend, launch) -> None:
    one = backend(PARENT)
    job = one.start(launch())
    assert job.handle is not None
    pid = job.handle["pid"]
    until(lambda: len(identity.group(pid)) == 2)
    os.kill(pid, signal.SIGKILL)
    until(lambda: only(one.find()).life is Life.REMNANT)
    assert one.kill(only(one.find()))
    assert only(one.find()).life is Life.GONE


def test_stop_asks_first_and_kills_what_does_not_listen(backend, launch) -> None:
    one = backend(STUBBORN)
    job = one.start(launch())
    until(lambda: "up" in (Path(job.log) / "stdout.log").read_text())
    assert one.stop(job, grace_s=0.3)
    assert only(one.find()).life is Life.GONE


def test_stopping_what_is_gone_is_done(backend, launch) -> None:
    one = backend("pass")
    job = one.start(launch())
    until(lambda: only(one.find()).life is Life.GONE)
    assert one.stop(job, grace_s=0.1)
    assert one.kill(job)


def test_a_known_driver_without_a_folder_is_judged_by_its_identity(backend, launch) -> None:
    one = backend(SLEEPS)
    job = one.start(launch())
    assert job.handle is not None
    known = Known("nyc", "t1", job.handle, job.log)
    for file in Path(job.log).iterdir():
        file.unlink()
    assert only(one.find([known])).life is Life.ALIVE
    with suppress(ProcessLookupError):
        os.killpg(job.handle["pid"], signal.SIGKILL)
    until(lambda: only(one.find([known])).life is Life.GONE)


def test_what_cannot_be_started_says_why_and_leaves_nothing(runtime, launch) -> None:
    one = LocalBackend(runtime.drivers, wrapper=("/no/such/program",))
    with pytest.raises(LakewardError, match="could not be started") as failed:
        one.start(launch())
    assert "/no/such/program" in failed.value.why
    assert only(one.find()).life is Life.GONE


def test_old_launches_are_tidied_away_but_never_a_living_one(backend, launch) -> None:
    living = backend(SLEEPS)
    first = living.start(launch(token="alive"))
    short = backend("pass")
    for number in range(KEEP_LAUNCHES + 3):
        job = short.start(launch(token=str(number)))
        until(lambda job=job: identity.life(job.handle) is Life.GONE)
    tokens = {job.token for job in short.find()}
    assert "alive" in tokens
    assert len(tokens) <= KEEP_LAUNCHES + 2
    assert identity.life(first.handle) is Life.ALIVE


def test_the_wrapper_comes_from_the_environment(runtime, monkeypatch) -> None:
    monkeypatch.setenv("LAKEWARD_DRIVER_WRAPPER", "systemd-run --user --scope --")
    assert LocalBackend.of_environment(runtime.drivers)._command[:4] == ("systemd-run", "--user", "--scope", "--")
