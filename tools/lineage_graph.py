"""The graph of OpenLineage events: jobs, datasets and the edges between them, as JSON and as a picture in Mermaid.

    python tools/lineage_graph.py EVENTS GRAPH PAGE

EVENTS has one event a line, as the transport `file` writes them. GRAPH gets the JSON; in PAGE the picture replaces the
one between the lines `<!-- graph -->` and `<!-- end of the graph -->`. `tools/screenshots.py` runs it on the events of
the demo.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, TypedDict

ROOT = Path(__file__).resolve().parents[1]
"""Files of the project are named from here."""
_PLACE = re.compile(r"(<!-- graph -->\n).*?(<!-- end of the graph -->)", re.DOTALL)


class Job(TypedDict):
    """A job with the facts of its newest run. `kind`: streaming, maintenance or checks."""

    name: str
    kind: str
    runs: int
    state: str
    inputs: list[str]
    outputs: list[str]


class Graph(TypedDict):
    """`datasets`: name -> its newest version (snapshot); None where it has none."""

    jobs: list[Job]
    datasets: dict[str, str | None]


def graph(events: list[dict[str, Any]]) -> Graph:
    """The graph of all events, by the names that people use: a table by its name in the catalog, not its location."""
    jobs: dict[str, Job] = {}
    runs: dict[str, set[str]] = {}
    datasets: dict[str, str | None] = {}
    for event in events:
        name = event["job"]["name"]
        job = jobs.setdefault(
            name, {"name": name, "kind": _kind(name), "runs": 0, "state": "", "inputs": [], "outputs": []}
        )
        runs.setdefault(name, set()).add(event["run"]["runId"])
        job["state"], job["runs"] = event["eventType"], len(runs[name])
        for side, found in ((job["inputs"], event.get("inputs", [])), (job["outputs"], event.get("outputs", []))):
            for dataset in found:
                label = _label(dataset)
                version = dataset.get("facets", {}).get("version", {}).get("datasetVersion")
                datasets[label] = version or datasets.get(label)
                if label not in side:
                    side.append(label)
    return {"jobs": [jobs[name] for name in sorted(jobs)], "datasets": dict(sorted(datasets.items()))}


def mermaid(found: Graph) -> str:
    """The picture: datasets are boxes, jobs are rounded; an arrow leads from what is read to what is written."""
    ids = {name: f"d{number}" for number, name in enumerate(found["datasets"])}
    lines = ["```mermaid", "flowchart LR"]
    lines += [f'  {ids[name]}["{name}"]' for name in found["datasets"]]
    for number, job in enumerate(found["jobs"]):
        lines.append(f'  j{number}(["{job["name"]}"])')
        lines += [f"  {ids[name]} --> j{number}" for name in job["inputs"] if name not in job["outputs"]]
        lines += [f"  j{number} --> {ids[name]}" for name in job["outputs"] if name not in job["inputs"]]
        lines += [f"  j{number} <--> {ids[name]}" for name in job["outputs"] if name in job["inputs"]]
    return "\n".join([*lines, "```", ""])


def _label(dataset: dict[str, Any]) -> str:
    for link in dataset.get("facets", {}).get("symlinks", {}).get("identifiers", []):
        return str(link["name"])
    kind = dataset["namespace"].partition(":")[0]
    return str(dataset["name"]).removeprefix(f"{ROOT}/") if kind == "file" else f"{kind} {dataset['name']}"


def _kind(job: str) -> str:
    return "streaming" if "." not in job else "checks" if job.endswith(".checks") else "maintenance"


def main() -> int:
    """Write graph and picture."""
    source, target, page = map(Path, sys.argv[1:])
    found = graph([json.loads(line) for line in source.read_text().splitlines() if line])
    target.write_text(json.dumps(found, indent=1) + "\n")
    picture = mermaid(found)
    page.write_text(_PLACE.sub(lambda match: match[1] + picture + match[2], page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
