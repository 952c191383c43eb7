"""What the README shows works: its stream is loaded, its commands and files exist, its figures are the demo's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakeward.cli.init import create
from lakeward.demo import flights
from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import load_project

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def test_your_own_stream_is_15_lines_and_loads_without_a_problem(tmp_path: Path) -> None:
    (snippet,) = _blocks("yaml")
    assert len(snippet.splitlines()) <= 15
    create(tmp_path / "mylake")
    project = Project(tmp_path / "mylake")
    (project.streams / "orders.yaml").write_text(snippet)
    loaded = load_project(project)
    assert [problem.text() for problem in loaded.problems if "orders.yaml" in problem.file] == []
    spec = loaded.streams["orders"].spec
    assert spec.lineage == "rows"
    assert str(spec.sink.table) == "shop.orders"


def test_the_number_of_flights_is_the_real_one() -> None:
    assert f"{len(flights.load()):,} flights" in TEXT


def test_every_make_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"^make ([a-z-]+)", "\n".join(_blocks("bash")), flags=re.MULTILINE))
    assert named == {"demo", "test"}
    assert named <= targets


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!https?://)([^)#]+)", TEXT))))
def test_every_file_it_links_to_exists(target: str) -> None:
    assert (ROOT / target).exists()


def test_the_folders_it_names_exist() -> None:
    rows = re.findall(r"^\| (`.+?`) \|", TEXT, flags=re.MULTILINE)
    named = {folder for row in rows for folder in re.findall(r"`([a-z_/]+)/`", row)}
    assert {folder for folder in named if not (ROOT / folder).is_dir()} == set()


def test_every_dag_it_names_is_built() -> None:
    named = set(re.findall(r"`((?:streams|tables|quality)_[a-z]+)`", TEXT))
    built = "\n".join(file.read_text() for file in (ROOT / "src/lakeward/airflow").glob("*.py"))
    assert {name for name in named if f'"{name}"' not in built} == set()


def test_the_screenshot_is_a_real_picture() -> None:
    picture = (ROOT / "docs/images/airflow.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")
    assert width >= 1200
    assert height >= 700
