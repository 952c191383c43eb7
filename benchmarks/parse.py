"""What a Dag file of many streams costs Airflow: CPU of parsing and serialising, and whether the bytes are the same.

    python benchmarks/parse.py [--streams 100 500]

Each size is parsed in fresh processes with different hash seeds. One JSON object: CPU seconds of reading
the files, building the Dags and serialising them, the marginal cost of one more stream in milliseconds of CPU (`cold`:
the first parse after a change of any file; else the files are as they were, which is what Airflow does all day), and
whether all processes made the same bytes (a Dag whose bytes differ gets a new version at every parse). Times depend on
the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STREAM = """owner: ops
tags: [core]
source:
  kafka: {{topics: [topic_{n}], starting_offsets: earliest, max_offsets_per_trigger: 20000}}
decode: {{json: "year INT, carrier STRING, dep_delay DOUBLE, time_hour TIMESTAMP"}}
transform: {{sql: "SELECT *, dep_delay * 60 AS seconds FROM source WHERE carrier IS NOT NULL"}}
sink:
  iceberg: {{table: bench.t_{n}, partition_by: ["days(time_hour)"]}}
trigger: {{every: 10s}}
"""

PARSE = """
import hashlib, json, runpy, sys, time
from airflow.serialization.serialized_objects import DagSerialization
import lakeward.airflow.stream_dags, lakeward.spec.read.loader
from pathlib import Path

def cpu():
    return time.process_time()

file = Path(sys.argv[1])
begun = cpu()
module = runpy.run_path(str(file), run_name=file.stem)
parsed = cpu()
from airflow.sdk import DAG
dags = {dag.dag_id: dag for dag in module.values() if isinstance(dag, DAG)}
data = {name: json.dumps(DagSerialization.to_dict(dag), sort_keys=True) for name, dag in sorted(dags.items())}
done = cpu()
digest = hashlib.sha256("".join(data.values()).encode()).hexdigest()
print(json.dumps({"dags": len(dags), "parse_s": parsed - begun, "serialise_s": done - parsed, "digest": digest}))
"""


def once(root: Path, seed: int) -> dict[str, Any]:
    """One fresh process."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", str(root)),
        "AIRFLOW_HOME": str(root / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "LAKEWARD_PROJECT": str(root),
        "PYTHONHASHSEED": str(seed),
    }
    file = Path(__file__).parents[1] / "dags" / "lakeward_streams.py"
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(file)], env=env, cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(streams: int) -> dict[str, Any]:
    """A project of so many streams, parsed three times: cold, and twice with nothing changed."""
    with tempfile.TemporaryDirectory(prefix="lakeward-parse-") as folder:
        root = Path(folder)
        (root / "conf" / "streams").mkdir(parents=True)
        for number in range(streams):
            (root / "conf" / "streams" / f"s{number:04}.yaml").write_text(STREAM.format(n=number))
        cold, *again = [once(root, seed) for seed in (1, 2, 3)]
    warm = min(again, key=lambda each: float(each["parse_s"]) + float(each["serialise_s"]))
    same = len({each["digest"] for each in (cold, *again)}) == 1
    return {"streams": streams, **warm, "cold_parse_s": cold["parse_s"], "identical": same}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what many stream Dags cost to parse")
    parser.add_argument("--streams", type=int, nargs=2, default=(100, 500))
    few, many = (measure(number) for number in parser.parse_args().streams)
    more = many["streams"] - few["streams"]

    def each(*names: str) -> float:
        return round(1000 * sum(many[name] - few[name] for name in names) / more, 2)

    print(
        json.dumps(
            {
                "sizes": [few, many],
                "parse_ms_each": each("parse_s"),
                "cold_parse_ms_each": each("cold_parse_s"),
                "serialise_ms_each": each("serialise_s"),
                "identical": few["identical"] and many["identical"],
                "cpus": os.cpu_count(),
                "load": os.getloadavg()[0],
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
