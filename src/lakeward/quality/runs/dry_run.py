"""Dry run: which tables a check run would check. Reads metadata and recorded results, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Project, Runtime
from lakeward.quality.results.status import no_session
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.observe import observe
from lakeward.quality.runs.order import RunOrder
from lakeward.quality.runs.request import Request
from lakeward.quality.suite.project import order
from lakeward.spec.model.suite import Suite


@dataclass(frozen=True)
class Planned:
    """Whether a run would check a table, and the reason, as a clause."""

    table: str
    due: bool
    why: str


def due_of(runtime: Runtime, registry_url: str, project: Project, pattern: str = "*") -> list[Planned]:
    """What a run would do for the tables that match a pattern.

    Args:
        runtime, registry_url, project: the deployment and the project.
        pattern: glob over `namespace.table`, with `*` and `?`.

    Raises:
        SpecError: a suite is invalid, or no table with a suite matches.
        DependencyDown: the registry does not answer.
    """
    run_order = order(Request(runtime=runtime, registry_url=registry_url, project=project.root))
    declared = {**run_order.suites, **run_order.invalid}
    tables = sorted(table for table in declared if fnmatchcase(table, pattern))
    if not tables and pattern != "*":
        raise SpecError(
            f"No table with a suite matches {pattern}",
            why=f"Tables with a suite: {', '.join(sorted(declared)) or 'none yet'}.",
            next="write expectations/NAMESPACE.TABLE.yaml, then: lakeward quality lint",
            code="LW-5015",
        )
    engines = Engines(runtime, registry_url, no_session)
    return [_planned(table, run_order, engines) for table in tables]


def _planned(table: str, run_order: RunOrder, engines: Engines) -> Planned:
    if table in run_order.invalid:
        return Planned(table, True, run_order.invalid[table])
    suite = run_order.suites[table]
    planned = attempt(f"table {table}", partial(_read, table, suite, run_order, engines))
    if isinstance(planned, Failure):
        return Planned(table, True, f"its metadata cannot be read: {planned.what}: {planned.why}")
    return planned


def _read(table: str, suite: Suite, run_order: RunOrder, engines: Engines) -> Planned:
    known = observe(table, suite, run_order, engines)
    schedule = known.due(suite)
    rows = known.found.rows if known.found is not None and schedule.due else None
    size = f"; {rows:,} rows" if rows is not None else ""
    return Planned(table, schedule.due, f"{schedule.why}{size}, {len(suite.expectations)} checks")
