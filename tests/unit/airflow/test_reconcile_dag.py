"""Starting reports: one run for each, and another one when the last was killed before it told anything."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.airflow.reconcile_dag import REPORTS, start_report
from lakeward.airflow.tasks.dag_runs import Started
from lakeward.supervision.report import DueReport

DUE = DueReport("flights", "report__stalled__2026-11-21T03-00-00", "At 03:00:00 UTC it was STALLED")


class Runs(dict[str, str]):
    """The runs Airflow has: id -> state."""

    def start(self, dag: str, run: str, conf: dict[str, Any]) -> Started:
        assert (dag, conf["op"], conf["found"]) == ("stream__flights", "report", DUE.found)
        if run in self:
            return Started.EXISTS
        self[run] = "queued"
        return Started.STARTED

    def state(self, dag: str, run: str) -> str | None:
        return self.get(run)

    def report(self, *, told: bool = False) -> tuple[str, str]:
        return start_report(DUE, self.start, self.state, lambda due: due == DUE and not told)


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_report_that_is_under_way_is_one_run(state) -> None:
    runs = Runs()
    assert runs.report() == (DUE.run, Started.STARTED)
    runs[DUE.run] = state
    assert runs.report() == (DUE.run, Started.EXISTS)
    assert list(runs) == [DUE.run]


def test_a_report_whose_run_ended_without_telling_it_gets_another_run_a_few_times() -> None:
    runs = Runs()
    for _ in range(REPORTS + 2):
        runs.report()
        runs |= dict.fromkeys(runs, "failed")
    assert list(runs) == [DUE.run, f"{DUE.run}__2", f"{DUE.run}__3"]


def test_a_report_that_was_reported_since_it_was_found_due_gets_no_other_run() -> None:
    runs = Runs({DUE.run: "failed"})  # as it should be: the run of a report about trouble is red
    assert runs.report(told=True) == (DUE.run, Started.EXISTS)
    assert list(runs) == [DUE.run]
