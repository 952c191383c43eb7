"""The metrics, by name: kind, labels, and what a value means. The reference page is made of this table. Pure.

Names follow Prometheus: base units, the unit at the end, `_total` for counters. Labels are names of the project
(stream, table, driver) and values of fixed sets, so that their number is bounded. Partitions are exported by choice.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Kind = Literal["gauge", "counter"]


@dataclass(frozen=True)
class Metric:
    """One metric; `name` as Prometheus shows it."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Kind = "gauge"


_STREAM: Final = ("stream",)
_TABLE: Final = ("table",)

REGISTRY_UP: Final = Metric(
    "lakeward_registry_up", "1 if the registry answered this scrape; without it no other metric is exported"
)
UNREADABLE: Final = Metric(
    "lakeward_unreadable_items", "Streams and tables whose rows in the registry could not be read", ("kind",)
)

STREAM_STATE: Final = Metric(
    "lakeward_stream_state", "1 for the state that the stream has, 0 for the others", ("stream", "state")
)
STREAM_INFO: Final = Metric(
    "lakeward_stream_info", "1; what the stream belongs to", ("stream", "driver", "sink", "owner")
)
STREAM_DESIRED: Final = Metric("lakeward_stream_desired_running", "1 if the stream should run", _STREAM)
GENERATION: Final = Metric("lakeward_stream_generation", "Number of the generation that the stream runs", _STREAM)
PENDING: Final = Metric("lakeward_stream_upgrade_pending", "1 if a newer generation waits for an upgrade", _STREAM)
LAG_RECORDS: Final = Metric(
    "lakeward_stream_lag_records",
    "Records at all sources that are not landed, as the driver measured them last; "
    "not exported while a source cannot be measured",
    _STREAM,
)
LAG_UNMEASURED: Final = Metric(
    "lakeward_stream_lag_unmeasured_sources",
    "Sources whose lag the driver could not measure: the lag of the stream is then not known",
    _STREAM,
)
LAG_SECONDS: Final = Metric(
    "lakeward_stream_lag_seconds", "Age of the oldest record that waits; 0 if none does", _STREAM
)
LAG_AT: Final = Metric("lakeward_stream_lag_timestamp_seconds", "When the driver measured the lag", _STREAM)
PARTITION_LAG: Final = Metric(
    "lakeward_stream_partition_lag_records",
    "The same for each partition; exported with --partitions",
    ("stream", "source", "topic", "partition"),
)
COMMITTED: Final = Metric("lakeward_stream_commit_timestamp_seconds", "When the newest batch was published", _STREAM)
FRESHNESS_LIMIT: Final = Metric("lakeward_stream_freshness_limit_seconds", "limits.freshness of the stream", _STREAM)
COMPLETE_THROUGH: Final = Metric(
    "lakeward_stream_complete_through_timestamp_seconds", "Event time up to which the table is final", _STREAM
)
BATCH_SECONDS: Final = Metric("lakeward_stream_batch_duration_seconds", "Duration of the newest batch", _STREAM)
PHASE_SECONDS: Final = Metric(
    "lakeward_stream_batch_phase_duration_seconds", "Duration of each phase of the newest batch", ("stream", "phase")
)
INPUT_RATE: Final = Metric("lakeward_stream_input_rows_per_second", "Rows that arrive, as Spark reports them", _STREAM)
PROCESSED_RATE: Final = Metric(
    "lakeward_stream_processed_rows_per_second", "Rows that are processed, as Spark reports them", _STREAM
)
STATE_ROWS: Final = Metric("lakeward_stream_state_rows", "Rows in the state stores", _STREAM)
STATE_BYTES: Final = Metric("lakeward_stream_state_memory_bytes", "Memory of the state stores", _STREAM)
FAILURES: Final = Metric(
    "lakeward_stream_failures_last_day", "Failures of the stream or of its driver in the last 24 hours", _STREAM
)
BATCHES: Final = Metric("lakeward_stream_batches_total", "Batches that the sink counts (seq)", _STREAM, "counter")
RECORDS: Final = Metric(
    "lakeward_stream_records_total",
    "Records since the stream's first position, by what became of them: consumed = landed + quarantined + filtered",
    ("stream", "result"),
    "counter",
)

HEARTBEAT: Final = Metric("lakeward_driver_heartbeat_timestamp_seconds", "Newest heartbeat of a driver", ("driver",))
DRIVER_UP: Final = Metric("lakeward_driver_up", "1 if the driver's newest launch has not ended", ("driver",))
SUPERVISED: Final = Metric("lakeward_supervision_up", "1 if reconcile passes succeed, or no stream has to run")
PASSED: Final = Metric("lakeward_supervision_pass_timestamp_seconds", "Newest successful reconcile pass")
INCIDENTS: Final = Metric("lakeward_incidents_open", "Open incidents", ("kind",))

TABLE_OBSERVED: Final = Metric(
    "lakeward_table_observed_timestamp_seconds", "When the figures of the table were observed", _TABLE
)
TABLE_FILES: Final = Metric("lakeward_table_files", "Data files", _TABLE)
TABLE_SMALL: Final = Metric(
    "lakeward_table_small_files", "Data files below the small-file threshold of the table's policy", _TABLE
)
TABLE_DELETES: Final = Metric("lakeward_table_delete_files", "Delete files", _TABLE)
TABLE_MANIFESTS: Final = Metric("lakeward_table_manifests", "Manifests", _TABLE)
TABLE_SNAPSHOTS: Final = Metric("lakeward_table_snapshots", "Retained snapshots", _TABLE)
TABLE_METADATA: Final = Metric("lakeward_table_metadata_files", "Metadata files", _TABLE)
TABLE_BYTES: Final = Metric("lakeward_table_size_bytes", "Bytes of the data files", _TABLE)
TABLE_ROWS: Final = Metric("lakeward_table_records", "Records in the data files", _TABLE)
TABLE_DUE: Final = Metric(
    "lakeward_table_due_timestamp_seconds", "Since when a maintenance action is due; absent if none is", _TABLE
)
TABLE_HELD: Final = Metric("lakeward_table_expiry_held", "1 if snapshot expiry waits for a person", _TABLE)

VERDICT: Final = Metric(
    "lakeward_quality_verdict",
    "1 for the verdict of the table's newest check run, 0 for the others",
    ("table", "verdict"),
)
FAILING: Final = Metric(
    "lakeward_quality_failing_checks",
    "Checks that failed, or could not be computed, in the newest run",
    ("table", "severity"),
)
CHECKED: Final = Metric("lakeward_quality_run_timestamp_seconds", "When the newest check run ended", _TABLE)

ALL: Final = tuple(item for item in list(globals().values()) if isinstance(item, Metric))
BY_NAME: Final = {metric.name: metric for metric in ALL}


def reference() -> str:
    """The reference page, docs/reference/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "What `lakeward metrics serve` exports; [how to](../how-to/watch-with-prometheus.md). This page is written by",
        "`make schemas`.",
        "",
        "| metric | kind | labels | value |",
        "|---|---|---|---|",
    ]
    for metric in ALL:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
