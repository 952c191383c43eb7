"""The services of a run start once, answer every worker, and end with the run, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import seeds
import services
from services import Host, PostgresService, request_service

from lakeward.platform import ports

SUPPORT = Path(services.__file__).parent


def until_it_is_silent(port: int) -> None:
    end = time.monotonic() + 60
    while ports.answers(port):
        assert time.monotonic() < end, "the server is still there"
        time.sleep(0.1)


def test_two_workers_get_one_server_and_copies_of_one_registry_and_it_ends_with_the_host(tmp_path: Path) -> None:
    host = Host(tmp_path / "services")
    try:
        with ThreadPoolExecutor(2) as pool:
            found = list(
                pool.map(
                    partial(request_service, host.address, host.key), ["postgres", "postgres", "registry", "registry"]
                )
            )
        assert found[0] == found[1]
        assert found[2] == found[3]
        with pytest.raises(RuntimeError, match="_nothing"):
            request_service(host.address, host.key, "nothing")
        server = PostgresService.of(found[0], tmp_path / "services", found[2])
        with ThreadPoolExecutor(2) as pool:
            copies = list(pool.map(lambda _: server.create_registry(), range(2)))
        assert len(set(copies)) == 2
    finally:
        host.close()
    until_it_is_silent(found[0])


def test_a_folder_in_memory_ends_with_its_run_also_one_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "memory"
    monkeypatch.setattr(services, "MEMORY", memory)
    monkeypatch.setattr(services, "ROOM", 0)
    with subprocess.Popen(["/bin/true"]) as ended:
        killed, other = (memory / f"{services.IN_MEMORY}{pid}-x" for pid in (ended.pid, os.getpid()))
    for left in (killed, other):
        left.mkdir(parents=True)
    with services.in_memory(tmp_path / "services" / "data") as made:
        assert made.parent == memory
        assert (tmp_path / "services" / "data").resolve() == made
    assert list(memory.iterdir()) == [other]


def test_without_room_in_memory_a_folder_is_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "ROOM", 1 << 60)
    with services.in_memory(tmp_path / "data") as made:
        assert made == tmp_path / "data"
        assert made.is_dir() and not made.is_symlink()


@pytest.mark.parametrize("service", ["postgres", "kafka"])
def test_a_run_that_is_killed_leaves_no_server(tmp_path: Path, service: str) -> None:
    code = (
        "import sys, time; from pathlib import Path; from services import Services\n"
        "held = Services(Path(sys.argv[1])); print(held.get(sys.argv[2]), flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "services"), service],
        stdout=subprocess.PIPE,
        text=True,
        cwd=SUPPORT,
    ) as run:
        try:
            assert run.stdout is not None
            port = int(run.stdout.readline().rpartition(":")[2])
            assert ports.answers(port)
        finally:
            run.kill()
    until_it_is_silent(port)


def test_a_seed_is_fixed_unless_another_is_asked_for_and_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(seeds.VARIABLE, raising=False)
    assert (seeds.seed(7), seeds.seed(7)) == (7, 7)
    monkeypatch.setenv(seeds.VARIABLE, "11")
    assert seeds.seed(7) == 11
    monkeypatch.setenv(seeds.VARIABLE, "random")
    drawn = [seeds.seed(7) for _ in range(20)]
    assert len(set(drawn)) > 1
    assert f"{seeds.VARIABLE}={drawn[-1]}\n" in capsys.readouterr().out
