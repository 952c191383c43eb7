"""A slice of the campaign of wrong publications; the long run is `tests/faults/publications.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import publications
import pytest

from lakeward.platform.runtime import Runtime
from lakeward.quality.runs.process import environment

FAULT = "main instead of what was checked"


@pytest.fixture(scope="module")
def rows(connect_server: Runtime) -> list[dict[str, Any]]:
    """Some schedules, and one with a guard taken out, in a process set up as the checking process is."""
    ran = subprocess.run(
        [sys.executable, publications.__file__, "2-3", f"2:{FAULT}"], input=connect_server.model_dump_json(),
        env=environment(connect_server), capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.timeout(900)
def test_nothing_wrong_is_published(rows) -> None:
    sound = [row for row in rows if "taken_out" not in row]
    print(json.dumps(sound, indent=1))
    assert [row["wrong"] for row in sound if not row["ok"]] == []
    assert sum(row["published"] for row in sound) > 0, "nothing was published: the schedules show nothing"


@pytest.mark.timeout(900)
def test_a_guard_taken_out_is_found(rows) -> None:
    (row,) = [row for row in rows if "taken_out" in row]
    assert "nobody proved or allowed" in row["wrong"], row
