"""Snapshot of the running demo, which the progress view shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lakeward.demo.lake import DemoLake, Shape
from lakeward.demo.stand import DemoStack
from lakeward.registry import batches, maintenance, verifications
from lakeward.registry.maintenance import LedgerRow
from lakeward.registry.verifications import Verification
from lakeward.supervision import observe
from lakeward.supervision.reconcile import backend_of


@dataclass(frozen=True)
class StreamSummary:
    """One stream: its state, the reason, and the number of landed rows; None without a count."""

    id: str
    sink: str
    state: str
    why: str
    landed: int | None
    quarantined: int | None


@dataclass(frozen=True)
class TableSummary:
    """One table: its size, its newest maintenance action and its newest verdict."""

    name: str
    shape: Shape
    maintenance: str
    verdict: str


@dataclass(frozen=True)
class DemoSummary:
    """All streams and tables at one time."""

    streams: tuple[StreamSummary, ...]
    tables: tuple[TableSummary, ...]


def summarise(stand: DemoStack, lake: DemoLake) -> DemoSummary:
    """Collect the present state of streams and tables."""
    with stand.registry() as connection:
        facts = observe.read(connection)
        totals = {row.id: batches.totals(connection, row.id) for row in facts.streams}
        actions = maintenance.newest_actions(connection, limit=50)
        specs = stand.specs
        names = sorted({str(spec.sink.table) for spec in specs.values() if spec.sink.table is not None})
        checked = {name: next(iter(verifications.newest(connection, name, limit=1)), None) for name in names}
    states = observe.verdicts(facts, observe.observed_jobs(backend_of(stand.runtime), facts))
    return DemoSummary(
        tuple(
            StreamSummary(
                row.id,
                specs[row.id].sink.label if row.id in specs else "-",
                states[row.id].state.value,
                states[row.id].why,
                totals[row.id]["landed"],
                totals[row.id]["quarantined"],
            )
            for row in facts.streams
        ),
        tuple(
            TableSummary(
                name,
                lake.shape(name),
                _maintenance(next((action for action in actions if action["table"] == name), None)),
                _verdict(checked[name]),
            )
            for name in names
        ),
    )


_FIGURES: Mapping[str, Literal["files", "snapshots", "manifests"]] = {
    "compact": "files",
    "expire": "snapshots",
    "manifests": "manifests",
}


def _maintenance(action: LedgerRow | None) -> str:
    if action is None:
        return "nothing yet"
    if action["result"] is None:
        return f"{action['action']} under way"
    figure = _FIGURES.get(action["action"])
    if figure is None:
        return f"{action['action']} {action['result']}"
    before, after = (action["before"] or {}).get(figure), (action["after"] or {}).get(figure)
    change = f": {before} {figure} to {after}" if before is not None and after is not None else ""
    return f"{action['action']} {action['result']}{change}"


def _verdict(run: Verification | None) -> str:
    return "not checked yet" if run is None else f"{run['verdict']}, {run['at']:%H:%M:%S} UTC"
