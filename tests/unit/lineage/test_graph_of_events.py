"""`tools/lineage_graph.py`: events become one connected graph, as JSON and as a picture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TOOL = Path(__file__).parents[3] / "tools" / "lineage_graph.py"


def event(job: str, run: str, kind: str, inputs: list[Any], outputs: list[Any]) -> str:
    return json.dumps(
        {"job": {"name": job}, "run": {"runId": run}, "eventType": kind, "inputs": inputs, "outputs": outputs}
    )


def table(version: str) -> dict[str, Any]:
    facets = {"symlinks": {"identifiers": [{"name": "nyc.flights"}]}, "version": {"datasetVersion": version}}
    return {"namespace": "file", "name": "/warehouse/nyc/flights", "facets": facets}


def test_topic_stream_table_and_compaction_hang_together(tmp_path: Path) -> None:
    topic = {"namespace": "kafka://127.0.0.1:9092", "name": "flights"}
    airlines = {"namespace": "file", "name": str(TOOL.parents[1] / "conf" / "airlines.csv")}
    events, target, page = tmp_path / "events", tmp_path / "graph.json", tmp_path / "page.md"
    lines = [
        event("flights", "1", "START", [topic], [table("7")]),
        event("flights", "1", "RUNNING", [topic, airlines], [table("8")]),
        event("nyc.flights.compact", "2", "COMPLETE", [table("8")], [table("9")]),
    ]
    events.write_text("\n".join(lines) + "\n")
    page.write_text("before\n<!-- graph -->\nan older picture\n<!-- end of the graph -->\nafter\n")
    subprocess.run([sys.executable, str(TOOL), *map(str, (events, target, page))], check=True)
    assert json.loads(target.read_text()) == {
        "jobs": [
            {
                "name": "flights", "kind": "streaming", "runs": 1, "state": "RUNNING",
                "inputs": ["kafka flights", "conf/airlines.csv"], "outputs": ["nyc.flights"],
            },
            {
                "name": "nyc.flights.compact", "kind": "maintenance", "runs": 1, "state": "COMPLETE",
                "inputs": ["nyc.flights"], "outputs": ["nyc.flights"],
            },
        ],
        "datasets": {"conf/airlines.csv": None, "kafka flights": None, "nyc.flights": "9"},
    }  # fmt: skip
    text = page.read_text()
    assert text.startswith("before\n<!-- graph -->\n```mermaid\n")
    assert text.endswith("<!-- end of the graph -->\nafter\n")
    assert "older" not in text
    assert [line.strip() for line in text.splitlines() if "-->" in line and "!" not in line] == [
        "d1 --> j0", "d0 --> j0", "j0 --> d2", "j1 <--> d2",
    ]  # fmt: skip
