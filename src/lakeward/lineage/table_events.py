"""OpenLineage events of what was done to a table: maintenance actions and check runs. Pure.

Each is a run of its own, START and COMPLETE or FAIL. An action reads the snapshot before it and writes the one after
it, so that compaction does not cut the graph. A check run reads the table, with an assertion for each check; it carries
no values of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from openlineage.client import facet_v2
from openlineage.client.event_v2 import Job, RunEvent, RunState

from lakeward.lineage.datasets import Addresses, of_table
from lakeward.lineage.events import make, of_input, of_output, run_id, table_facets
from lakeward.registry.maintenance import Figures, LedgerRow
from lakeward.registry.verifications import CheckResult, Verification

_ENDS = {"done": RunState.COMPLETE, "failed": RunState.FAIL, "timed_out": RunState.FAIL}
"""Result of an action -> how its run ended; a refused or skipped action did nothing and has no run."""
_SEVERITIES = {"critical": "error", "warning": "warn"}
"""Severity -> the word of OpenLineage's facet; others stay as they are."""


def of_action(row: LedgerRow, addresses: Addresses, namespace: str) -> tuple[RunEvent, ...]:
    """The events of an action of the ledger; none if it did nothing, or if its table's location is not known."""
    state = _ENDS.get(row["result"] or "")
    dataset = of_table(row["table"], addresses)
    if state is None or dataset is None or row["finished_at"] is None:
        return ()
    job = _job(namespace, f"{row['table']}.{row['action']}", "MAINTENANCE")
    read = [of_input(dataset, table_facets(dataset, _snapshot(row["before"])))]
    written = [of_output(dataset, table_facets(dataset, _snapshot(row["after"])))] if row["result"] == "done" else []
    run = run_id(namespace, "action", row["id"])
    return (
        make(row["started_at"], run, job, RunState.START, read=read),
        make(row["finished_at"], run, job, state, read=read, written=written, failure=row["why"]),
    )


def of_check_run(
    row: Verification, checks: Sequence[CheckResult], addresses: Addresses, namespace: str
) -> tuple[RunEvent, ...]:
    """The events of a check run; none if its table's location is not known."""
    dataset = of_table(row["table"], addresses)
    if dataset is None:
        return ()
    job = _job(namespace, f"{row['table']}.checks", "QUALITY")
    assertions = facet_v2.data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
        [_assertion(check) for check in checks if check["state"] != "skipped"]
    )
    facets = table_facets(dataset, row["to_snapshot"])
    run = run_id(namespace, "checks", row["run"])
    began = row["at"] - timedelta(seconds=row["duration_s"] or 0.0)
    state = RunState.FAIL if row["verdict"] == "error" else RunState.COMPLETE
    checked = of_input(dataset, facets, {"dataQualityAssertions": assertions})
    return (
        make(began, run, job, RunState.START, read=[of_input(dataset, facets)]),
        make(row["at"], run, job, state, read=[checked], failure=row["note"] or "the checks could not be computed"),
    )


def _job(namespace: str, name: str, kind: str) -> Job:
    return Job(namespace, name, {"jobType": facet_v2.job_type_job.JobTypeJobFacet("BATCH", "LAKEWARD", kind)})


def _snapshot(figures: Figures | None) -> int | None:
    return None if figures is None else figures.get("snapshot_id")


def _assertion(check: CheckResult) -> facet_v2.data_quality_assertions_dataset.Assertion:
    arguments: Mapping[str, object] = (check["observed"] or {}).get("kwargs") or {}
    column = arguments.get("column")
    return facet_v2.data_quality_assertions_dataset.Assertion(
        check["expectation"],
        check["state"] == "pass",
        str(column) if isinstance(column, str) else None,
        severity=_SEVERITIES.get(check["severity"], check["severity"]),
        name=check["check"],
    )
