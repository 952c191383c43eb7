from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeward.platform.failures import Cause, FailureClass, Judgement
from lakeward.registry.drivers import Driver
from lakeward.supervision import termination
from lakeward.supervision.backends import identity
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.termination import last_words


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("", ""),
        ("WARNING: Using incubator modules: jdk.incubator.vector\n", ""),
        ("WARNING: Using incubator modules: jdk.incubator.vector\nModuleNotFoundError: No module named 'x'\n\n",
         "ModuleNotFoundError: No module named 'x'"),
        ("OutOfMemoryError\nWARNING: careful\n", "OutOfMemoryError"),
    ],
)  # fmt: skip
def test_the_last_words_of_a_driver_are_not_the_jvms_greeting(tmp_path: Path, printed: str, words: str) -> None:
    (tmp_path / "stdout.log").write_text(printed)
    assert last_words(Job("demo", "t", Life.GONE, None, "here", str(tmp_path))) == words


def test_a_driver_that_went_down_with_its_machine_is_said_to(tmp_path: Path) -> None:
    handle = {"pid": 1, "start_time": 5.0, "boot_id": "the boot before", "host": identity.host()}
    row = Driver(
        name="demo", token="t", backend="local", handle=handle, host=None, log=None, state="running",
        launched_at=datetime(2026, 1, 1, tzinfo=UTC), heartbeat=None, exit_code=None, error=None, spark_ui=None,
        age_s=None, launched_s=60.0,
    )  # fmt: skip
    end = termination.of(row, None)
    assert end.judgement == Judgement(FailureClass.INFRA, Cause.REBOOT)
    assert end.words("demo", known=True, reason="") == (
        "Driver demo went down with its machine: the machine was rebooted"
    )
    assert (
        termination.of(replace(row, handle={**handle, "boot_id": identity.boot_id()}), None).judgement.cause
        is Cause.KILLED
    )
