"""The disk fills up under a running driver: the cause has its name, and what was read lands once there is room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes
PLACES = ("checkpoints", "warehouse")


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Two small disks of this test's own."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a disk of its own")
    with ExitStack() as held:
        for name in PLACES:
            place = tmp_path / "disks" / name
            place.mkdir(parents=True)
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)], capture_output=True, check=False
            )
            if done.returncode:
                pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
            held.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True)
        yield {name: tmp_path / "disks" / name for name in PLACES}


def fill(disk: Path) -> Path:
    """Leave no byte free on it."""
    filler = disk / "somebody-elses-file"
    with filler.open("wb", buffering=0) as stream:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    stream.write(b"\0" * size)
            except OSError:
                continue
    return filler


def test_a_full_disk_is_named_burns_no_patience_and_loses_nothing(
    world: Any, simple: Callable[..., Any], disks: dict[str, Path]
) -> None:
    lake = world.runtime.lake.model_copy(update={"warehouse": str(disks["warehouse"])})
    world.runtime = world.runtime.model_copy(update={"checkpoints": str(disks["checkpoints"]), "lake": lake})
    topic, table = world.kafka.create_topic(), f"{world.name}.t"
    stream = world.deploy(simple(f"{world.name}_s", topic, table, restart={"max_backoff": "1s"}))
    world.numbers(topic, range(100))
    driver = world.launch()
    world.wait_landed(table, stream, 100)

    def failures() -> list[dict[str, Any]]:
        return list(driver.events("stream failed, will restart"))

    for number, place in enumerate(PLACES, start=1):
        before = len(failures())
        filler = fill(disks[place])
        world.numbers(topic, range(100 * number, 100 * (number + 1)))
        *_, failed = world.wait_for(
            f"the failure for want of room in {place}",
            lambda before=before: failures()[before:],
        )
        assert (failed["failure_class"], failed["cause"]) == ("dependency", "disk full"), driver.said()
        seen = world.wait_for(
            "the record", lambda: (found := world.observation(stream)) is not None and found.error and found
        )
        assert seen.error["class"] == "dependency"
        assert world.stream(stream).blocked is None
        filler.unlink()
        world.wait_landed(table, stream, 100 * (number + 1))

    assert driver.terminate() == 0, driver.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(300))
