from __future__ import annotations

import json

from lakeward.demo.report import QualityReport, Report, StreamReport, TableReport


def test_the_report_has_the_fields_scripts_rely_on() -> None:
    report = Report(seed=3, records=50_000)
    report.streams.append(StreamReport("flights", "nyc.flights", "rows", "healthy", 5, 4, 1, None, 0, 0, None, 1, 2.5))
    report.tables.append(TableReport("nyc.flights", 40, 6, 100, 100, 20, 5))
    report.quality.append(QualityReport("nyc.flights", "r1", "pass", [], 7))
    report.dag_runs = {"streams_reconcile": {"success": 9, "failed": 0}}
    data = json.loads(json.dumps(report.document()))
    assert set(data["streams"][0]) == {
        "id", "sink", "lineage", "state", "produced", "landed", "quarantined", "late_dropped", "missing", "duplicates",
        "mismatched_windows", "restarts", "p99_freshness_s",
    }  # fmt: skip
    assert set(data["tables"][0]) == {
        "table", "files_before", "files_after", "rows_before", "rows_after", "snapshots_before", "snapshots_after",
    }  # fmt: skip
    assert set(data["quality"][0]) == {"table", "run", "verdict", "failed_checks", "verified_snapshot"}
    assert data["airflow"] == {"dag_runs": {"streams_reconcile": {"success": 9, "failed": 0}}}
    assert data["ok"] is True


def test_what_landed_while_files_were_rewritten_was_there_before() -> None:
    compact = {"before": {"files": 18, "records": 500}, "after": {"files": 9, "records": 540}}
    expire = {"before": {"snapshots": 9}, "after": {"snapshots": 7}}
    alone = TableReport.of("t", compact, expire)
    assert (alone.rows_before, alone.rows_after) == (500, 540), "rows that nobody landed are seen"
    compact["after"] |= {"files_meanwhile": 3, "records_meanwhile": 40}
    assert TableReport.of("t", compact, expire) == TableReport("t", 21, 9, 540, 540, 9, 7)


def test_one_claim_that_does_not_hold_fails_the_report() -> None:
    report = Report(seed=1, records=1)
    report.claim(True, "never shown")
    assert report.ok
    report.claim(False, "verified moved")
    assert report.document()["ok"] is False
    assert report.document()["problems"] == ["verified moved"]
