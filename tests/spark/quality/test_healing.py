"""A server that works on what was given up is ended by the holder of the claim, and by nobody else."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from sqlalchemy import Connection

from lakeward.connectors.spark import server_process
from lakeward.connectors.spark.connect_server import MAIN
from lakeward.platform import ports
from lakeward.platform.runtime import Lake, Runtime
from lakeward.quality.runs.engines import Engines
from lakeward.registry import check_runs, engine, events, maintenance
from lakeward.registry.check_runs import Claim, Fenced
from lakeward.stack import private

SERVER = """
import ctypes, socket, sys, threading
def burn():
    ctypes.CDLL(None).prctl(15, b"Executor task launch worker"[:15], 0, 0, 0)
    while True:
        sum(range(10000))
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if sys.argv[2] == "busy":
    threading.Thread(target=burn, daemon=True).start()
while True:
    listening.accept()[0].close()
"""
"""Listens as a Connect server does, with one thread named as those that run tasks; `busy`: it never rests."""


class Standing:
    """The process, and its supervisor: the next one is idle."""

    def __init__(self) -> None:
        self.port = ports.any_free()
        self.starts = 0
        self.over = threading.Event()
        self.start("busy", MAIN)

    def start(self, how: str, name: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", SERVER, str(self.port), how, name])
        self.starts += 1
        end = monotonic() + 60
        while not ports.answers(self.port) and monotonic() < end:
            sleep(0.1)

    def supervise(self) -> None:
        while not self.over.wait(0.1):
            if self.process.poll() is not None:
                self.start("idle", MAIN)


@pytest.fixture
def standing() -> Iterator[Standing]:
    made = Standing()
    supervisor = threading.Thread(target=made.supervise, daemon=True)
    supervisor.start()
    yield made
    made.over.set()
    supervisor.join()
    made.process.kill()
    made.process.wait()


@pytest.fixture
def runtime(lake: Lake, postgres: Any, tmp_path: Path, standing: Standing) -> Runtime:
    url = private.write(tmp_path / "registry.url", postgres.url(postgres.create_registry()))
    return Runtime(
        registry_url_file=url, pgpass=postgres.pgpass, lake=lake, connect=f"127.0.0.1:{standing.port}",
        checkpoints=str(tmp_path), drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip


def claimed(connection: Connection, ttl_s: float) -> Claim:
    hour = timedelta(hours=1)
    check_runs.ask(connection, "here", {}, asked_by="tests", timeout=hour, wait=hour)
    made = check_runs.claim(connection, "me", timedelta(seconds=ttl_s), place="here")
    assert made is not None
    return made.claim


def unused(own_id: str) -> Any:
    raise AssertionError("no session is needed")


def test_a_busy_server_is_ended_and_the_one_after_it_is_waited_for(runtime: Runtime, standing: Standing) -> None:
    url = runtime.registry_url_file.read_text()
    busy = standing.process.pid
    with engine.connect(url, runtime.pgpass) as connection:
        claim = claimed(connection, 600)
        action = maintenance.begin_action(
            connection, plan="p", table="a.b", action="compact", session_id="its", before={}
        )
    engines = Engines(runtime, url, unused, claim=claim)
    engines.heal()
    assert standing.process.pid == busy, "maintenance uses it"
    with engine.connect(url, runtime.pgpass) as connection:
        maintenance.finish_action(connection, action, result="done", verified=True)
    engines.begin(claim)
    assert standing.starts == 2 and ports.answers(standing.port)
    with engine.connect(url, runtime.pgpass) as connection:
        (told,) = events.newest(connection, "part", "connect")
    assert "given up" in told.text
    engines.heal()
    assert standing.starts == 2, "an idle server is left alone"


def test_a_process_whose_claim_is_over_ends_no_server(runtime: Runtime, standing: Standing) -> None:
    url = runtime.registry_url_file.read_text()
    with engine.connect(url, runtime.pgpass) as connection:
        lost = claimed(connection, -1)
        assert check_runs.claim(connection, "another", timedelta(minutes=5), place="here") is not None
    with pytest.raises(Fenced):
        Engines(runtime, url, unused, claim=lost).heal()
    assert standing.starts == 1


def test_what_is_no_connect_server_or_listens_elsewhere_is_not_found(runtime: Runtime, standing: Standing) -> None:
    assert server_process.find(runtime) is not None
    assert server_process.find(runtime.model_copy(update={"connect": f"example.com:{standing.port}"})) is None
    standing.over.set()
    standing.process.kill()
    standing.process.wait()
    standing.start("idle", "another.Main")
    assert server_process.find(runtime) is None
