"""The log of a maintenance task: each line names the table, and each action its figures and its reason."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from lakeward.airflow import maintain_dag

PLAN: Any = {
    "table": "nyc.flights",
    "actions": [{"action": "compact", "why": "72 small files", "files": 72, "expected_s": 9.0}],
    "not_planned": [{"action": "expire", "why": "the oldest snapshot is 2 h old, the limit is 5 days"}],
}
REPORT: Any = {"plan": PLAN, "told": "72 files", "advice": ["write less often"]}


def action(result: str, change: str = "", why: str = "") -> Any:
    return {
        "action": "compact", "result": result, "change": change, "why": why, "duration_s": 9.1, "cpu_s": 4.2,
        "before": {}, "after": {}, "verified": result == "done",
    }  # fmt: skip


def test_every_line_names_the_table() -> None:
    with capture_logs() as lines:
        maintain_dag._log_report(REPORT, dry=False)
        for result in ("done", "skipped", "failed"):
            maintain_dag.log_action("nyc.flights", action(result))
    assert {line.get("table") for line in lines} == {"nyc.flights"}
    assert next(line for line in lines if line["event"] == "action not planned")["why"].startswith("the oldest")


@pytest.mark.parametrize(
    ("given", "level", "says", "failure"),
    [
        (action("done", "72 → 1 files"), "info", "72 → 1 files", ""),
        (action("done"), "info", "as many files, manifests and snapshots as before", ""),
        (action("failed", "", "rows differ"), "error", "nothing changed",
         "compact of nyc.flights: failed: rows differ (nothing changed)"),
        (action("refused", "72 → 1 files", "a hold"), "error", "72 → 1 files",
         "compact of nyc.flights: refused: a hold (72 → 1 files)"),
    ],
)  # fmt: skip
def test_an_action_says_before_and_after(given: Any, level: str, says: str, failure: str) -> None:
    with capture_logs() as lines:
        assert maintain_dag.log_action("nyc.flights", given) == failure
    assert [(line["log_level"], line["change"], line["why"]) for line in lines] == [(level, says, given["why"])]
