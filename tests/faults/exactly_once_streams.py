"""The streams of the exactly-once campaign, one for each (sink, mode), and the steps at which each can be killed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

DECODE = "n BIGINT, k STRING, v BIGINT, op STRING, g STRING, t TIMESTAMP"
TOTALS = "SELECT k, count(*) AS c, sum(v) AS s FROM source GROUP BY k"
WINDOWS = (
    "SELECT window.start AS w, k, count(*) AS c, sum(v) AS s FROM source GROUP BY window(t, '1 minute'), k"
)  # fmt: skip
WATERMARK = {"column": "t", "delay": "1h"}
NEWEST = {"mode": "upsert", "keys": ["k"], "order_by": "n"}
CAP = 60
FILES = "files in"
"""The folder whose files hold the records, too."""

Sink = Literal["iceberg", "delta", "postgres", "files", "kafka", "python"]
Proof = Literal["positions", "numbers", "keys", "totals", "windows", "groups"]

OFFSETS = ("before-offset-log", "after-offset-log")
COMMITS = ("after-publish", "before-commit-log", "after-record", "after-commit-log")
STEPS: Mapping[Sink, tuple[str, ...]] = {
    "iceberg": (*OFFSETS, "mid-write", "after-files", "after-stage", *COMMITS),
    "delta": (*OFFSETS, "mid-write", "after-stage", "before-publish", *COMMITS),
    "postgres": (*OFFSETS, "mid-write", "after-files", "after-stage", *COMMITS),
    "files": (*OFFSETS, "mid-write", "after-files", "after-stage", *COMMITS),
    "kafka": (*OFFSETS, "before-send", *COMMITS[1:]),
    "python": (*OFFSETS, "before-send", *COMMITS[1:]),
}
"""Where a stream is killed, in the order of a batch. See docs/explanation/faults.md for what each one is."""


@dataclass(frozen=True)
class Kind:
    """One (sink, mode).

    Attributes:
        name: e.g. `iceberg-upsert`.
        sink: its connector.
        options: the sink's, without where it is.
        proof: what the oracle compares.
        exact: False for a sink at least once.
        more: keys of the spec beside the usual ones.
    """

    name: str
    sink: Sink
    proof: Proof
    options: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = True
    files: bool = False

    @property
    def steps(self) -> tuple[str, ...]:
        """Where it can be killed."""
        return STEPS[self.sink]

    @property
    def lake(self) -> bool:
        """Whether maintenance can work beside it."""
        return self.sink in ("iceberg", "delta")

    def spec(self, stream: str, topic: str, table: str, folder: Path) -> dict[str, Any]:
        """The stream's document.

        Args:
            table: `namespace.table` of the lake; its name is that of a table of PostgreSQL and of a topic, too.
            folder: of files.
        """
        places: dict[Sink, dict[str, Any]] = {
            "iceberg": {"table": table},
            "delta": {"table": table},
            "postgres": {"connection": "there", "table": table.rpartition(".")[2]},
            "files": {"path": str(folder / table), "format": "parquet"},
            "kafka": {"topic": table.rpartition(".")[2]},
            "python": {},
        }
        where = places[self.sink] | dict(self.options)
        source: dict[str, Any] = {"kafka": {"topics": [topic], "max_offsets_per_trigger": CAP}}
        if self.files:
            source = {"files": {"path": str(folder / FILES), "format": "json", "max_files_per_trigger": 3}}
        return {
            "id": stream,
            "source": source,
            "decode": {"json": DECODE},
            "sink": {self.sink: where or "exactly_once_sink:keep"},
            "quarantine": {"table": f"{table}_quarantine"},
            "trigger": {"every": "3s"},
            "spark": {"spark.sql.shuffle.partitions": 2},
            **self.more,
        }


def _sql(text: str) -> dict[str, Any]:
    return {"transform": {"sql": text}}


DELETING = NEWEST | {"delete_when": "op = 'd'"}
ALL = (
    Kind("iceberg-append", "iceberg", "positions", more={"lineage": "rows"}),
    Kind("iceberg-upsert", "iceberg", "keys", DELETING | {"write": "merge-on-read"}),
    Kind("iceberg-upsert-cow", "iceberg", "keys", DELETING | {"write": "copy-on-write"}),
    Kind("iceberg-complete", "iceberg", "totals", {"mode": "complete"}, _sql(TOTALS)),
    Kind("iceberg-windows", "iceberg", "windows", {"mode": "upsert", "keys": ["w", "k"]},
         {**_sql(WINDOWS), "watermark": WATERMARK}),
    Kind("iceberg-deduplicate", "iceberg", "groups",
         more={"watermark": WATERMARK, "deduplicate": {"keys": ["g"]}, "lineage": "rows"}),
    Kind("iceberg-available-now", "iceberg", "positions",
         more={"trigger": {"available_now": True, "schedule": "0 * * * *"}, "lineage": "rows"}),
    Kind("delta-append", "delta", "positions", more={"lineage": "rows"}),
    Kind("delta-upsert", "delta", "keys", DELETING),
    Kind("delta-complete", "delta", "totals", {"mode": "complete"}, _sql(TOTALS)),
    Kind("postgres-append", "postgres", "positions", more={"lineage": "rows"}),
    Kind("postgres-upsert", "postgres", "keys", NEWEST),
    Kind("files-append", "files", "positions", more={"lineage": "rows"}),
    Kind("kafka-append", "kafka", "positions", more={"lineage": "rows"}, exact=False),
    Kind("kafka-update", "kafka", "windows", {"mode": "update", "key": "to_json(struct(w, k))"},
         {**_sql(WINDOWS), "watermark": WATERMARK}, exact=False),
    Kind("python", "python", "positions", more={"lineage": "rows"}, exact=False),
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in ALL}
