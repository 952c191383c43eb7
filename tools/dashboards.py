"""Write the Grafana dashboards, deploy/grafana/*.json; `--check` fails where one is not current.

Each panel is one line here: title, unit, queries with their legends. Grafana asks for the data source at import.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "deploy" / "grafana"
WIDTH, HEIGHT, ACROSS = 12, 8, 2


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        queries: (PromQL, legend); `{$stream}` stands for the chosen values of that label.
        kind: timeseries | table | stat.
    """

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    about: str = ""


@dataclass(frozen=True)
class Dashboard:
    """One dashboard; `variable`: a label to choose values of, and the metric that has them."""

    uid: str
    title: str
    panels: Sequence[Panel]
    variable: tuple[str, str] | None = None


OVERVIEW = Dashboard(
    "lakeward-overview",
    "Lakeward: overview",
    [
        Panel("Registry", [("lakeward_registry_up", "answers")], kind="stat", about="0: no other figure is current"),
        Panel("Supervision", [("lakeward_supervision_up", "reconcile passes succeed")], kind="stat"),
        Panel("Streams by state", [("sum by (state) (lakeward_stream_state)", "{{state}}")]),
        Panel(
            "Streams in trouble",
            [
                (
                    'lakeward_stream_state{state=~"blocked|stalled|unknown|restarting|lagging"} == 1',
                    "{{stream}}: {{state}}",
                )
            ],
            kind="table",
        ),
        Panel("Lag", [("lakeward_stream_lag_seconds", "{{stream}}")], "s", about="Age of the oldest record that waits"),
        Panel("Landed records", [('rate(lakeward_stream_records_total{result="landed"}[5m])', "{{stream}}")], "rowsps"),
        Panel("Open incidents", [("lakeward_incidents_open", "{{kind}}")]),
        Panel("Age of the last reconcile pass", [("time() - lakeward_supervision_pass_timestamp_seconds", "age")], "s"),
    ],
)
STREAM = Dashboard(
    "lakeward-stream",
    "Lakeward: stream",
    [
        Panel("State", [("lakeward_stream_state{$stream} == 1", "{{stream}}: {{state}}")], kind="table"),
        Panel("Lag in records", [("lakeward_stream_lag_records{$stream}", "{{stream}}")]),
        Panel(
            "Lag in seconds, and the limit of freshness",
            [
                ("lakeward_stream_lag_seconds{$stream}", "{{stream}}"),
                ("lakeward_stream_freshness_limit_seconds{$stream}", "{{stream}}: limit"),
            ],
            "s",
        ),
        Panel(
            "Time since the last commit",
            [("time() - lakeward_stream_commit_timestamp_seconds{$stream}", "{{stream}}")],
            "s",
        ),
        Panel(
            "Records by result",
            [("sum by (result) (rate(lakeward_stream_records_total{$stream}[5m]))", "{{result}}")],
            "rowsps",
        ),
        Panel(
            "Rows in and rows processed",
            [
                ("lakeward_stream_input_rows_per_second{$stream}", "{{stream}}: in"),
                ("lakeward_stream_processed_rows_per_second{$stream}", "{{stream}}: processed"),
            ],
            "rowsps",
        ),
        Panel("Batch by phase", [("lakeward_stream_batch_phase_duration_seconds{$stream}", "{{phase}}")], "s"),
        Panel("State", [("lakeward_stream_state_rows{$stream}", "{{stream}}: rows")]),
        Panel("Failures in 24 hours", [("lakeward_stream_failures_last_day{$stream}", "{{stream}}")]),
        Panel("Generation", [("lakeward_stream_generation{$stream}", "{{stream}}")], about="A step is a deploy"),
    ],
    ("stream", "lakeward_stream_desired_running"),
)
TABLE = Dashboard(
    "lakeward-table",
    "Lakeward: table",
    [
        Panel(
            "Files, and small files",
            [
                ("lakeward_table_files{$table}", "{{table}}: files"),
                ("lakeward_table_small_files{$table}", "{{table}}: small"),
            ],
        ),
        Panel("Size", [("lakeward_table_size_bytes{$table}", "{{table}}")], "bytes"),
        Panel("Delete files", [("lakeward_table_delete_files{$table}", "{{table}}")]),
        Panel("Manifests", [("lakeward_table_manifests{$table}", "{{table}}")]),
        Panel("Snapshots", [("lakeward_table_snapshots{$table}", "{{table}}")]),
        Panel("Maintenance is due for", [("time() - lakeward_table_due_timestamp_seconds{$table}", "{{table}}")], "s"),
        Panel("Age of the figures", [("time() - lakeward_table_observed_timestamp_seconds{$table}", "{{table}}")], "s"),
        Panel("Expiry waits for a person", [("lakeward_table_expiry_held{$table}", "{{table}}")]),
    ],
    ("table", "lakeward_table_files"),
)
QUALITY = Dashboard(
    "lakeward-quality",
    "Lakeward: quality",
    [
        Panel("Verdict", [("lakeward_quality_verdict{$table} == 1", "{{table}}: {{verdict}}")], kind="table"),
        Panel("Failing checks", [("lakeward_quality_failing_checks{$table}", "{{table}}: {{severity}}")]),
        Panel(
            "Time since the last run", [("time() - lakeward_quality_run_timestamp_seconds{$table}", "{{table}}")], "s"
        ),
        Panel(
            "Quarantined records",
            [('rate(lakeward_stream_records_total{result="quarantined"}[15m])', "{{stream}}")],
            "rowsps",
        ),
    ],
    ("table", "lakeward_quality_run_timestamp_seconds"),
)
ALL = (OVERVIEW, STREAM, TABLE, QUALITY)
_SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}


def chosen(query: str) -> str:
    """PromQL with the selectors of the chosen values."""
    return re.sub(r"\{\$(\w+)\}", r'{\1=~"$\1"}', query)


def document(dashboard: Dashboard) -> dict[str, object]:
    """The dashboard in Grafana's format."""
    return {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}],
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["lakeward"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [] if dashboard.variable is None else [_variable(*dashboard.variable)]},
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }


def _variable(label: str, metric: str) -> dict[str, object]:
    return {
        "name": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({metric}, {label})", "refId": "values"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel) -> dict[str, object]:
    row, column = divmod(number, ACROSS)
    instant = panel.kind != "timeseries"
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": column * WIDTH, "y": row * HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": chosen(query),
                "legendFormat": legend,
                "instant": instant,
                "range": not instant,
                "datasource": _SOURCE,
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def files() -> dict[Path, str]:
    """File -> its text."""
    return {
        FOLDER / f"{dashboard.uid.removeprefix('lakeward-')}.json": json.dumps(document(dashboard), indent=2) + "\n"
        for dashboard in ALL
    }


def main(arguments: Sequence[str]) -> int:
    """Write, or with `--check` compare."""
    stale = [file for file, text in files().items() if not file.exists() or file.read_text() != text]
    if "--check" in arguments:
        for file in stale:
            print(f"{file} is not current: make schemas")  # noqa: T201  # a tool of the command line
        return 1 if stale else 0
    for file, text in files().items():
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
