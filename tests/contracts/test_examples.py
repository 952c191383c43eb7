"""The examples are whole: each is a valid stream, has a line in their README, and finds its records in order."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import load_project

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "conf/examples"
NAMES = sorted(file.stem for file in EXAMPLES.glob("*.yaml"))


def test_every_example_is_valid_as_it_is(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "conf/reference", tmp_path / "conf/reference")
    streams = Project(tmp_path).streams
    streams.mkdir()
    (tmp_path / "data/weather").mkdir(parents=True)
    for file in (*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("*.sql")):
        shutil.copy(file, streams)
    Project(tmp_path).python.mkdir()
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, Project(tmp_path).python)
    loaded = load_project(Project(tmp_path))
    assert not loaded.problems, "\n".join(str(each) for each in loaded.problems)
    assert sorted(loaded.streams) == NAMES


def test_the_readme_of_the_examples_names_each() -> None:
    lines = [line for line in (EXAMPLES / "README.md").read_text().splitlines() if line.startswith("| [")]
    assert sorted(line.split("]")[0].removeprefix("| [") for line in lines) == NAMES


def test_the_examples_get_their_records_in_the_order_of_event_time() -> None:
    records = list(runpy.run_path(str(EXAMPLES / "produce.py"))["records"](3))
    times = [at for at, *_ in records]
    assert times == sorted(times)
    assert {topic for _, topic, _ in records} == {"departures", "weather"}
