"""A driver on a worker: how it comes to its launch, and what it says if it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from small_streams import connected, registry_file, runtime

from lakeward.driver import cluster
from lakeward.driver import main as driver
from lakeward.driver.cluster import URL_FILE, Address
from lakeward.driver.jvm import Jvm
from lakeward.driver.launch_row import LaunchReporter
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import ClusterPlace, Launch, Runtime
from lakeward.registry import drivers, launches
from lakeward.supervision.observe import Connect

__all__ = ["connected", "registry_file", "runtime"]  # fixtures


@pytest.fixture
def launch(connected: Connect, runtime: Runtime) -> Launch:
    place = ClusterPlace(master="spark://h:7077")
    there = runtime.model_copy(update={"registry_url_file": Path("/not/here"), "pgpass": Path("/not/here/pgpass")})
    made = Launch(
        driver="big", token="t1", folder=Path("/of/the/starter"), runtime=there, cluster=place, id="abc",
        conf={"spark.master": place.master},
    )  # fmt: skip
    with connected() as connection:
        assert drivers.record_intent(connection, "big", token="t1", previous=None, backend="standalone")
        launches.record(
            connection, "abc", driver="big", token="t1", document=made.model_dump(mode="json"), place=place.model_dump()
        )
    return made


@pytest.fixture
def address(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Address:
    monkeypatch.setenv(URL_FILE, str(runtime.registry_url_file))
    monkeypatch.setenv("PGPASSFILE", str(runtime.pgpass))
    return Address.of("/not/here")


@pytest.fixture
def reporter(launch: Launch, address: Address, tmp_path: Path) -> LaunchReporter:
    folder = tmp_path / "driver-0001"
    folder.mkdir()
    return LaunchReporter(launch.model_copy(update={"folder": folder}), address.url, address.pgpass)


def test_it_takes_its_launch_with_the_addresses_of_its_own_machine(
    launch: Launch, address: Address, runtime: Runtime, tmp_path: Path
) -> None:
    found = cluster.take("abc", address, tmp_path)
    assert (found.token, found.driver, found.folder, found.id) == ("t1", "big", tmp_path, "abc")
    assert (found.runtime.registry_url_file, found.runtime.pgpass) == (runtime.registry_url_file, runtime.pgpass)


def test_a_launch_that_is_not_there_is_said_to_be(launch: Launch, address: Address, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        cluster.take("another", address, tmp_path)
    assert error.value.code == "LW-2525"


def test_a_launch_of_another_version_names_what_is_unknown(
    launch: Launch, address: Address, connected: Connect, tmp_path: Path
) -> None:
    document = {**launch.model_dump(mode="json"), "a_later_key": 1}
    with connected() as connection:
        launches.record(connection, "later", driver="big", token="t2", document=document, place={})
    with pytest.raises(SpecError) as error:
        cluster.take("later", address, tmp_path)
    assert (error.value.code, error.value.why) == ("LW-2526", "a_later_key")


def test_an_address_that_is_not_there_names_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(URL_FILE, raising=False)
    with pytest.raises(SpecError) as error:
        Address.of(str(tmp_path / "registry.url"))
    assert error.value.code == "LW-2524"
    assert URL_FILE in error.value.next
    (tmp_path / "registry.url").write_text("postgresql://u@h:1/d\n")
    (tmp_path / "pgpass").touch()
    monkeypatch.delenv("PGPASSFILE", raising=False)
    assert Address.of(str(tmp_path / "registry.url")).pgpass == tmp_path / "pgpass"


def test_it_records_itself_where_its_starter_could_not(reporter: LaunchReporter, connected: Connect) -> None:
    reporter.claimed()
    expected = {"submission": "driver-0001", "master": "spark://h:7077"}
    with connected() as connection:
        row, launched = drivers.find(connection, "big"), launches.of_token(connection, "t1")
    assert row is not None and launched is not None
    assert row.handle == launched.handle == expected
    assert row.log is not None and row.log.endswith("driver-0001")


def test_it_hears_the_request_to_end_and_gives_a_dump_once(reporter: LaunchReporter, connected: Connect) -> None:
    asked: list[str] = []
    reporter.end = lambda: asked.append("end")
    reporter.threads = lambda: "dump"
    reporter._turn()
    assert asked == []
    with connected() as connection:
        launches.request_end(connection, "t1")
        requested = launches.request_dump(connection, "t1")
    reporter._turn()
    with connected() as connection:
        assert launches.dumped(connection, "t1", requested)
        assert launches.requests(connection, "abc") == launches.Requests(end=True)
    assert asked == ["end"]


def test_its_last_words_are_the_end_of_its_logs_masked(reporter: LaunchReporter, connected: Connect) -> None:
    folder = reporter._launch.folder
    (folder / "driver.log").write_text("x" * 70_000 + '\n{"event": "last", "url": "postgresql://u:secret@h/d"}\n')
    (folder / "stderr").write_text('Launch Command: "java" "-XX:+ExitOnOutOfMemoryError"\nthe end\n')
    reporter.close({"exit_code": 1, "error": "why"})
    with connected() as connection:
        row, log = launches.of_token(connection, "t1"), launches.log_tail(connection, "t1")
    assert row is not None and log is not None
    assert row.exit == {"exit_code": 1, "error": "why"}
    assert row.printed is not None and row.printed.strip() == "the end"
    assert log == '{"event": "last", "url": "postgresql://u:***@h/d"}\n'


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ('Launch Command: "java" "-XX:+ExitOnOutOfMemoryError"\n', "The driver lost its JVM: it ended"),
        (
            "java.lang.OutOfMemoryError: Java heap space\n",
            "The driver ran out of memory: its JVM ended: java.lang.OutOfMemoryError: Java heap space",
        ),
    ],
)
def test_a_jvm_that_another_process_started_is_dead_when_it_is_no_parent_any_more(
    tmp_path: Path, printed: str, words: str
) -> None:
    (tmp_path / "stderr").write_text(printed)
    ended = False
    jvm = Jvm(None, tmp_path / "stderr", str, parent_ended=lambda: ended)
    assert jvm.death_reason() is None
    ended = True
    assert jvm.death_reason(wait_s=1.0) == words


@pytest.mark.parametrize(
    ("parent", "why"), [(1, "The driver lost its JVM: it ended"), (os.getppid(), "[Errno 2] No such file or directory")]
)
def test_a_jvm_that_ends_while_spark_starts_is_named_and_not_the_error_that_it_brings_about(
    reporter: LaunchReporter, monkeypatch: pytest.MonkeyPatch, parent: int, why: str
) -> None:
    monkeypatch.setattr(driver, "JVM_S", 0.1)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    reporter._parent = os.getppid()
    monkeypatch.setattr(os, "getppid", lambda: parent)
    end = driver._guarded(reporter._launch, reporter)  # the file with the address is not there
    assert end.code == 1
    assert end.why.startswith(why)


def test_an_orphan_is_one_whose_parent_is_another(reporter: LaunchReporter, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not reporter.is_orphan()
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert reporter.is_orphan()


ORPHAN = """\
import sys, time
from pathlib import Path
from lakeward.driver import launch_row
from lakeward.platform.runtime import Lake, Launch, Runtime

launch_row.ORPHAN_S = 0.0
folder = Path(sys.argv[1])
runtime = Runtime(registry_url_file=folder, lake=Lake(warehouse="/w"), checkpoints="/c", drivers=folder, jars=folder)
launch = Launch(driver="big", token="t", folder=folder, runtime=runtime, id="abc")
launch_row.LaunchReporter(launch, "postgresql://nobody@127.0.0.1:1/nothing", None).start()
(folder / "ready").touch()
time.sleep(600)  # a control loop that hangs
"""


def test_a_process_whose_control_loop_hangs_ends_after_its_jvm(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ORPHAN, str(tmp_path)]
    parent = subprocess.Popen(["/bin/sh", "-c", '"$@" & wait', "sh", *command])
    try:
        until(lambda: (tmp_path / "ready").exists())
        [child] = psutil.Process(parent.pid).children()
    finally:
        parent.kill()
        parent.wait()
    try:
        until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    finally:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)
