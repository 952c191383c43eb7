"""What a batch, a check run and a compaction cost: CPU seconds against another source tree, in turns ABBA.

    python benchmarks/versions.py --other /path/to/other/tree [--batches 20] [--records 2000] [--pairs 9]

The other tree needs an environment of its own (`make install` in it), since its dependencies are others.

Each tree has a stack of its own (PostgreSQL, Kafka, the Connect server) and a running stream that lands JSON in an
Iceberg table. A turn is `--batches` batches, one check run of what they landed, and one compaction of their files, by
the commands that people type. Counted are: of a batch the driver; of the others the command, the Connect server and
PostgreSQL. One JSON object: the median and quartiles of the ratios (other / this: above 1, this one is cheaper).
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import bench_trees
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "bench"
PYTHON = ".venv/bin/python"
FILES = {
    "conf/streams/bench.yaml": """
id: bench
owner: bench
source: {kafka: {topics: [bench], max_offsets_per_trigger: RECORDS}}
decode: {json: "id BIGINT, at TIMESTAMP, carrier STRING, origin STRING, dest STRING, delay DOUBLE, distance INT"}
transform: {sql: "SELECT * FROM source"}
sink: {iceberg: {table: bench.landed}}
quarantine: {table: bench.bad}
trigger: {every: 100ms}
""",
    "expectations/bench.landed.yaml": """
table: bench.landed
owner: bench
expectations:
  - {type: expect_column_values_to_not_be_null, kwargs: {column: id}, severity: critical, on_fail: hold}
  - {type: expect_column_values_to_be_between, kwargs: {column: delay, min_value: -100, max_value: 2000}}
  - {type: expect_column_values_to_be_in_set, kwargs: {column: origin, value_set: [EWR, JFK, LGA]}}
  - {type: expect_column_value_lengths_to_equal, kwargs: {column: dest, value: 3}}
""",
}


class Side:
    """One tree with its stream."""

    def __init__(self, source: Path, folder: Path, batches: int, records: int) -> None:
        self._batches, self._records, self._sent = batches, records, 0
        files = {name: text.replace("RECORDS", str(records)) for name, text in FILES.items()}
        self.tree = bench_trees.Tree(source / "src", folder, files, "postgres,kafka,connect,checker", source / PYTHON)
        runtime = json.loads(next(self.tree.home.rglob("runtime.json")).read_text())
        [bootstrap] = runtime["kafka"].values()
        self._producer = Producer({"bootstrap.servers": bootstrap})
        admin = AdminClient({"bootstrap.servers": bootstrap})  # the future is void without it
        admin.create_topics([NewTopic(TOPIC, 2)])[TOPIC].result(60)
        self._produce(1)
        self.tree.command("deploy")
        self.tree.command("streams", "start", "bench", "--wait")

    def once(self) -> dict[str, float]:
        """CPU seconds of one turn, by part."""
        found = {"batches": self._land()}
        found["check"] = self._typed("quality", "run", "bench.landed")
        found["compaction"] = self._typed("tables", "maintain", "bench.landed", "--actions", "compact")
        return found

    def _land(self) -> float:
        before = self.tree.cpu(part="driver")
        self._produce(self._batches * self._records)
        while self._waiting():
            time.sleep(5)
        return self.tree.cpu(part="driver") - before

    def _typed(self, *words: str) -> float:
        before, own = self.tree.cpu(), resource.getrusage(resource.RUSAGE_CHILDREN)
        self.tree.command(*words)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        typed = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
        return self.tree.cpu() - before + typed

    def _waiting(self) -> bool:
        """Whether records wait at the broker."""
        status = json.loads(self.tree.command("streams", "status", "bench", "-o", "json"))
        return status["lag_records"] != 0

    def _produce(self, number: int) -> None:
        for at in range(self._sent, self._sent + number):
            record = {
                "id": at, "at": f"2013-01-{1 + at % 28:02d}T{at % 24:02d}:00:00Z", "carrier": "UA", "dest": "SFO",
                "origin": ("EWR", "JFK", "LGA")[at % 3], "delay": at % 300 - 20.5, "distance": at % 3000,
            }  # fmt: skip
            self._producer.produce(TOPIC, json.dumps(record))
            self._producer.poll(0)
        if self._producer.flush(60):
            raise RuntimeError("the broker did not take all records")
        self._sent += number


def main() -> None:
    """Print the ratios and the machine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, required=True, help="the other tree")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=9)
    given = parser.parse_args()
    sides: dict[str, Side] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, tree in (("this", bench_trees.HERE.parent), ("other", given.other.resolve())):
                sides[name] = Side(tree, Path(folder) / name, given.batches, given.records)
            for side in sides.values():  # the JVM compiles
                side.once()
            ratios = bench_trees.in_turns(["this", "other"], given.pairs, lambda name: sides[name].once())
        finally:
            for side in sides.values():
                side.tree.close()
    bench_trees.report(ratios, batches=given.batches, records=given.records, pairs=given.pairs)


if __name__ == "__main__":
    main()
