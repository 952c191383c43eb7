"""Entry point of maintenance for Dags and for the command line; builds their JSON and records results.

Each function returns the JSON of the command line's contract.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar
from uuid import uuid4

import structlog

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import LakewardError, SpecError
from lakeward.platform.runtime import Project, Runtime
from lakeward.platform.text import word
from lakeward.registry import backpressure, maintenance
from lakeward.registry.backpressure import Level
from lakeward.spec.model.policy import Engine
from lakeward.tables import pinned
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.documents import (
    HealthDocument,
    ObservedHealth,
    ObserveDocument,
    Pin,
    PinsDocument,
    PlansDocument,
    TableHealth,
    WhyDocument,
    unplanned,
    unread,
)
from lakeward.tables.facts import Profile
from lakeward.tables.guard import readers
from lakeward.tables.guard.positions import block_streams
from lakeward.tables.ledger import entry
from lakeward.tables.maintain import MaintainDocument, OnPlan, maintain_table
from lakeward.tables.needs import RegistryState, read_registry
from lakeward.tables.observation import TableObservation, known_profiles, load_facts, observe_table, register, shown
from lakeward.tables.orphans import remove_orphans
from lakeward.tables.plan import ORDER
from lakeward.tables.plan.metadata import DELETE
from lakeward.tables.plan.model import PlanDocument
from lakeward.tables.plan.orphans import ACTION as ORPHANS
from lakeward.tables.plan.pressure import Pressure, pressure
from lakeward.tables.plan.rank import Candidate, rank

log = structlog.get_logger(__name__)

Row = TypeVar("Row")
Other = TypeVar("Other")


def observe(runtime: Runtime, project: Project, tables: Sequence[str] | None = None) -> ObserveDocument:
    """Read the facts of every table (or of the named ones), record changes, plan, record the plans.

    A stream whose position is no longer on main is blocked here: the next expiry would erase the evidence. A table that
    cannot be read is reported with its error and does not stop the others.
    """
    site = MaintenanceContext.of(runtime, project)
    with site.registry() as connection:
        around, profiles = read_registry(connection), known_profiles(connection)
        since = maintenance.due_since(connection)
    found: list[ObservedHealth] = []
    compete: list[Candidate] = []
    errors: dict[str, str] = {}
    for name in tables if tables is not None else site.names():
        seen = attempt(f"table {name}", partial(_observed, site, name, around, profiles.get(name), since.get(name)))
        if isinstance(seen, Failure):
            errors[name] = seen.text
            continue
        found.append(seen[0])
        compete.append(seen[1])
    chosen, left = rank(compete, site.policies.budget.seconds, datetime.now(UTC))
    log.info("Tables observed", tables=len(found), due=len(chosen), left=len(left), errors=len(errors))
    return {
        "tables": found,
        "due": [each.table for each in chosen],
        "left": left,
        "errors": errors,
    }


def _observed(
    site: MaintenanceContext, name: str, around: RegistryState, known: Profile | None, since: datetime | None
) -> tuple[ObservedHealth, Candidate]:
    """Observe one table and record what it needs; `since`: since when something is due."""
    seen = load_facts(site, name, around, known)
    with site.registry() as connection:
        register(connection, around, seen.facts, external=site.external(name))
        if known != seen.facts.profile:
            maintenance.record_facts(connection, name, seen.facts.snapshot_id, seen.facts.document(datetime.now(UTC)))
        there = observe_table(connection, site, seen, around)
        block_streams(connection, there.problems)
        behind = _pressure(there)
        backpressure.set_level(connection, name, behind.level, behind.why)
        maintenance.record_pins(connection, name, pinned.stored(_pinned(there)))
        if there.plan.actions:
            maintenance.record_plan(connection, uuid4().hex, name, there.plan.stored())
    waiting = there.now - min(since or there.now, there.now)
    health: ObservedHealth = {**_health(there), "plan": there.plan.document()}
    return health, Candidate(there.plan, waiting, reads=1 + len(there.readers))


def make_known(runtime: Runtime, project: Project, table: str) -> None:
    """Register a table that no observation has seen yet: it can be held before the first maintenance.

    Raises:
        SpecError: the lake has no such table.
    """
    site = MaintenanceContext.of(runtime, project)
    with site.registry() as connection:
        if table in maintenance.all_tables(connection):
            return
        around = read_registry(connection)
    if site.delta(table) is None:
        site.load(table)  # for the error of a wrong name
    seen = load_facts(site, table, around)
    with site.registry() as connection:
        register(connection, around, seen.facts, external=site.external(table))


def health(runtime: Runtime, project: Project, table: str | None = None) -> HealthDocument:
    """The health of every table, or of one; records nothing. A table that cannot be read is a row with its error."""
    return {"tables": _each(runtime, project, table, _health, unread)}


def plans(runtime: Runtime, project: Project, table: str | None = None) -> PlansDocument:
    """The due actions, and why the others are not due; records nothing."""
    return {"plans": _each(runtime, project, table, lambda there: there.plan.document(), unplanned)}


def pins(runtime: Runtime, project: Project, table: str) -> PinsDocument:
    """The snapshot pins of a table, and the reasons that keep expiry from running at all; records nothing."""
    there = _look_at(MaintenanceContext.of(runtime, project), table, ORDER)
    return {
        "table": table,
        "readers": readers.documents(there.facts, there.readers),
        "pins": _pinned(there),
        "refusals": [each for each in (there.needs.forbidden, *there.needs.refusals) if each],
    }


def _pinned(there: TableObservation) -> list[Pin]:
    return pinned.documents(there.facts, there.seen.policy.expire, there.needs, there.now)


def why(runtime: Runtime, project: Project, table: str) -> WhyDocument:
    """The current decision about a table, and the last action; records nothing."""
    site = MaintenanceContext.of(runtime, project)
    there = _look_at(site, table, ORDER)
    with site.registry() as connection:
        done = maintenance.newest_actions(connection, table, 1)
    last = entry(done[0]) if done else None
    return {"table": table, "plan": there.plan.document(), "advice": list(there.advice), "last": last}


def maintain(
    runtime: Runtime,
    project: Project,
    table: str,
    actions: Collection[str] | None = None,
    *,
    partitions: Collection[str] = (),
    dry_run: bool = False,
    engine: Engine | None = None,
    holder: str | None = None,
    on_plan: OnPlan = lambda _: None,
) -> MaintainDocument:
    """Run the due actions of one table.

    Args:
        runtime, project: the deployment and the project.
        table: `namespace.table`.
        actions: only these; by default all except orphans, or `compact` when partitions are named. Actions that are not
            due do not run.
        partitions: compact only these, as named in the plan; all that are due by default.
        dry_run: plan and show, change nothing.
        engine: the warm server (`connect`), or a Spark application of its own (`submit`); by default as in the table's
            policy.
        holder: the name of the lease's holder.
        on_plan: receives `told`, `plan` and `advice` of the result, before anything is done.

    Raises:
        Refused: another run maintains the table, or it must not be maintained.
        SpecError: the table, action or partition does not exist.
    """
    selected = selected_actions(actions or (["compact"] if partitions else None), table)
    site = MaintenanceContext.of(runtime, project)
    if selected == (ORPHANS,):
        done = remove_orphans(site, table, holder, dry_run=dry_run)
        on_plan(done)  # the plan is the result of the listing
        return done
    first = tuple(each for each in selected if each != ORPHANS)
    if dry_run:
        done = {**shown(_look_at(site, table, first, partitions)), "actions": []}
        on_plan(done)
    else:
        done = maintain_table(site, table, first, holder, only=partitions, on=engine, on_plan=on_plan)
        if any(action["action"] == "compact" and action["result"] == "done" for action in done["actions"]):
            with site.registry() as connection:  # its streams waited for this; the next observation decides again
                backpressure.set_level(connection, table, Level.OK, "")
    if ORPHANS in selected:
        last = remove_orphans(site, table, holder, dry_run=dry_run)
        on_plan(last)
        done["plan"]["actions"] += last["plan"]["actions"]
        done["plan"]["not_planned"] += last["plan"]["not_planned"]
        done["actions"] += last["actions"]
    return done


def matching(
    runtime: Runtime, project: Project, pattern: str, actions: Collection[str] | None = None
) -> list[PlanDocument]:
    """The plan of the named table, or of each table that matches the pattern (`nyc.*`); records nothing.

    Raises:
        SpecError: an action does not exist, or no table matches.
    """
    selected, site = selected_actions(actions, pattern), MaintenanceContext.of(runtime, project)
    known = site.names() if set(pattern) & set("*?[") else [pattern]
    if pattern in known:  # a name may have a bracket
        return [_look_at(site, pattern, selected).plan.document()]
    names = fnmatch.filter(known, pattern)
    if not names:
        raise SpecError(
            f"No table matches {pattern}",
            why=f"Known tables: {', '.join(known) or 'none yet'}.",
            next="lakeward tables health",
            code="LW-4017",
        )
    found = []
    for name in names:
        there = attempt(f"table {name}", partial(_look_at, site, name, selected))
        found.append(unplanned(name, there) if isinstance(there, Failure) else there.plan.document())
    return found


def selected_actions(actions: Collection[str] | None, table: str = "nyc.flights") -> tuple[str, ...]:
    """The named actions in the order they run.

    Args:
        table: the table that an error names.

    Raises:
        SpecError: an action does not exist.
    """
    there = (*ORDER, ORPHANS)
    for action in actions or ():
        if action == "restore":
            why = "It moves the streams of the table too, and asks for approval."
            raise SpecError(
                "Cannot run restore as a maintenance action",
                why=why,
                next=f"lakeward tables restore {word(table)} --to 1 --dry-run   names its newest snapshots",
                code="LW-4018",
            )
        if action not in there:
            raise SpecError(
                f"Action {action} does not exist",
                why=f"Valid actions: {', '.join(there)}.",
                next=f"lakeward tables maintain {word(table)} --actions compact,expire --dry-run",
                code="LW-4019",
            )
    return tuple(each for each in there if each in (actions or ORDER))


def _each(
    runtime: Runtime,
    project: Project,
    table: str | None,
    shown: Callable[[TableObservation], Row],
    failed: Callable[[str, Failure], Other],
) -> list[Row | Other]:
    """A row of every table, or of the named one, whose error is raised."""
    site = MaintenanceContext.of(runtime, project)
    with site.registry() as connection:
        around, profiles = read_registry(connection), known_profiles(connection)
    rows: list[Row | Other] = []
    for name in [table] if table is not None else site.names():
        row = attempt(
            f"table {name}",
            partial(_shown, site, name, around, profiles.get(name), shown),
            through=() if table is None else (LakewardError,),
        )
        rows.append(failed(name, row) if isinstance(row, Failure) else row)
    return rows


def _shown(
    site: MaintenanceContext,
    name: str,
    around: RegistryState,
    known: Profile | None,
    shown: Callable[[TableObservation], Row],
) -> Row:
    seen = load_facts(site, name, around, known)
    with site.registry() as connection:
        return shown(observe_table(connection, site, seen, around))


def _look_at(
    site: MaintenanceContext, table: str, selected: Collection[str], only: Collection[str] = ()
) -> TableObservation:
    with site.registry() as connection:
        around = read_registry(connection)
        return observe_table(connection, site, load_facts(site, table, around), around, selected, only=only)


def _health(there: TableObservation) -> TableHealth:
    facts, profile = there.facts, there.facts.profile
    due = [action.action for action in there.plan.actions]
    return {
        "table": facts.table,
        "format": facts.format,
        "files": profile.files,
        "small_files": profile.small_files,
        "size_bytes": profile.bytes,
        "records": profile.records,
        "delete_files": profile.delete_files,
        "deleted_rows": profile.deleted_rows,
        "manifests": profile.manifests,
        "snapshots": len(facts.snapshots),
        "metadata_files": facts.metadata_files,
        "partitions": len(profile.partitions),
        "last_commit": facts.last_commit,
        "last_maintenance": max(there.history.done.values(), default=None),
        "due": due,
        "readers": readers.documents(facts, there.readers),
        "streams": list(facts.streams),
        "advice": _advice(there),
        "error": None,
    }


def _pressure(there: TableObservation) -> Pressure:
    policy = there.seen.policy
    return pressure(there.facts, policy.compact, policy.pressure, there.history.done.get("compact"), there.plan)


def _advice(there: TableObservation) -> str:
    """The most important finding, and the advice on the table."""
    return "; ".join(each for each in (_headline(there), *there.advice) if each)


def _headline(there: TableObservation) -> str:
    refused = [item for item in there.plan.not_planned if item.refused]
    if refused:
        return refused[0].why
    behind = _pressure(there)
    if behind.level is not Level.OK:
        return behind.why
    if there.plan.actions:
        return there.plan.actions[0].why
    facts = there.facts
    if facts.format == "iceberg" and facts.properties.get(DELETE, "true").lower() != "true":
        return next((item.why for item in there.plan.not_planned if item.action == "metadata"), "")
    return ""
