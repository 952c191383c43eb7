from __future__ import annotations

import os
import signal

import pytest

from lakeward.platform.errors import DependencyDown
from lakeward.registry import drivers
from lakeward.supervision import launch_dump
from lakeward.supervision.backends.base import Life
from lakeward.supervision.reconcile import reconcile_once


def test_a_dump_is_taken_of_a_launch_that_is_alive_and_found_afterwards(
    connected, runtime, backend, deployed, eventually, sigkill
) -> None:
    deployed("flights")
    reconcile_once(connected, runtime, backend, holder="test", chance=lambda: 0.0, startup_grace_s=0.0)
    eventually(lambda: any(job.life is Life.ALIVE and job.handle for job in backend.find()))
    (job,) = backend.find()
    with connected() as connection:
        row = drivers.find(connection, "nyc")
    os.kill(job.handle["pid"], signal.SIGSTOP)  # it answers no tool, so that none has to be installed here
    try:
        eventually(lambda: all(each.stopped for each in backend.find()))  # a signal takes effect later than it is sent
        assert launch_dump.take(connected, backend, row)
    finally:
        sigkill(job.handle["pid"])
    with connected() as connection:
        found = launch_dump.newest(connection, row)
    assert "is stopped (SIGSTOP, or a suspended host)" in found.text
    assert not launch_dump.take(connected, backend, row), "it ended"


def test_a_cluster_that_does_not_answer_is_no_driver_that_ended(
    connected, runtime, backend, deployed, monkeypatch
) -> None:
    deployed("flights")
    reconcile_once(connected, runtime, backend, holder="test", chance=lambda: 0.0, startup_grace_s=0.0)
    with connected() as connection:
        row = drivers.find(connection, "nyc")
    found = [type(job)(**{**vars(job), "life": Life.UNKNOWN}) for job in backend.find()]
    monkeypatch.setattr(backend, "find", lambda known=(): found)
    with pytest.raises(DependencyDown, match="its cluster does not answer"):
        launch_dump.take(connected, backend, row)
