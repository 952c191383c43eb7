"""The streams of conf/examples, as streams of a project of a test, and the records they read."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import load_project

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "conf/examples"


def produced(days: float) -> dict[str, list[dict[str, Any]]]:
    """Topic -> the records that conf/examples/produce.py sends of these first days of 2013, in their order."""
    found: dict[str, list[dict[str, Any]]] = {"departures": [], "weather": []}
    for _, topic, record in runpy.run_path(str(EXAMPLES / "produce.py"))["records"](days):
        found[topic].append(record)
    assert len(found["departures"]) > 300 * days
    return found


def load(lab: Any, name: str, tmp_path: Path, topics: dict[str, str]) -> dict[str, Any]:
    """The example as a stream of a project of its own, with topics and tables of this test."""
    project = Project(tmp_path / "project")
    project.streams.mkdir(parents=True)
    project.python.mkdir()
    for file in EXAMPLES.glob(f"{name}.py"):
        (project.python / file.name).write_text(file.read_text())
    for file in (EXAMPLES / f"{name}.yaml", *EXAMPLES.glob(f"{name}.sql")):
        text = file.read_text().replace("examples.", f"{lab.namespace}.")
        for topic, own in topics.items():
            text = text.replace(f"topics: [{topic}]", f"topics: [{own}]").replace(f"topic: {topic},", f"topic: {own},")
        (project.streams / file.name).write_text(text)
    (project.root / "conf/reference").symlink_to(ROOT / "conf/reference")
    loaded = load_project(project)
    assert not loaded.problems, "\n".join(str(each) for each in loaded.problems)
    document: dict[str, Any] = loaded.streams[name].spec.document()
    if "real_time" in document["trigger"]:
        return {**document, "trigger": {"real_time": "5s"}}
    for source in document["sources"].values():
        if "kafka" in source:
            source["kafka"]["max_offsets_per_trigger"] = 450  # several batches
        else:
            source["iceberg"]["max_files_per_trigger"] = 1
    return {**document, "trigger": {"every": "500ms"}}


def counted(rows: Any) -> dict[str, int]:
    """Row -> how often it is there, without the position columns."""
    names = sorted(name for name in rows.columns if not name.startswith("_"))
    found: dict[str, int] = {}
    for row in rows.select(*names).collect():
        text = json.dumps(row.asDict(), default=str, sort_keys=True)
        found[text] = found.get(text, 0) + 1
    return found
