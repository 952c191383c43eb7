"""The page of promises names each sink, mode and trigger that the grammar takes and this version does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from lakeward.spec.model.sinks import SINK_CONNECTORS, Sink
from lakeward.spec.model.trigger import Trigger

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/promises.md"


def _rows(title: str) -> list[list[str]]:
    section = PAGE.read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


def _modes(connector: str) -> set[str]:
    field = Sink.model_fields[connector].annotation
    [model] = [each for each in get_args(field) if each is not type(None)]
    mode = getattr(model, "model_fields", {}).get("mode")
    return set(get_args(mode.annotation)) if mode else {"append"}


def test_every_sink_that_is_done_is_there_with_its_modes() -> None:
    done = {(connector, mode) for connector in SINK_CONNECTORS if connector != "memory" for mode in _modes(connector)}
    assert {(row[0], row[1]) for row in _rows("Sinks")} == done


def test_every_trigger_that_is_done_is_there() -> None:
    assert {row[0] for row in _rows("Triggers")} == set(Trigger.model_fields) - {"schedule"}


def test_every_example_it_names_is_there() -> None:
    named = re.findall(r"\(\.\./\.\./conf/examples/(\w+)\.yaml\)", PAGE.read_text())
    assert named
    assert [name for name in named if not (ROOT / f"conf/examples/{name}.yaml").exists()] == []
