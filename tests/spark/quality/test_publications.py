"""A slice of the campaign of wrong publications; the long run is `tests/faults/publications.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import publication_schedule
import pytest
from seeds import seed

from lakeward.platform.runtime import Runtime
from lakeward.quality.runs.process import environment

FAULT = "main instead of what was checked"


def schedules(connect_server: Runtime, asked: str) -> list[dict[str, Any]]:
    """Some schedules in a process set up as the checking process is."""
    ran = subprocess.run(
        [sys.executable, publication_schedule.__file__, asked], input=connect_server.model_dump_json(),
        env=environment(connect_server), capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.seeded
@pytest.mark.timeout(900)
def test_nothing_wrong_is_published(connect_server: Runtime) -> None:
    first = seed(2)
    sound = schedules(connect_server, f"{first}-{first + 1}")
    print(json.dumps(sound, indent=1))
    assert [row["wrong"] for row in sound if not row["ok"]] == []
    assert sum(row["published"] for row in sound) > 0, "nothing was published: the schedules show nothing"


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_guard_taken_out_is_found(connect_server: Runtime) -> None:
    (row,) = schedules(connect_server, f"2:{FAULT}")
    assert row["taken_out"] == FAULT
    assert "nobody proved or allowed" in row["wrong"], row
