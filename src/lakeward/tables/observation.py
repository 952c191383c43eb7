"""One observation of one table: facts, policy, needs, history, and the resulting plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from sqlalchemy import Connection

from lakeward.connectors.commit_protocol.position import streams_of
from lakeward.connectors.delta import state
from lakeward.connectors.delta.folder import Folder
from lakeward.platform.boundary import attempt, worded
from lakeward.platform.errors import SpecError
from lakeward.platform.text import count, size, word
from lakeward.registry import maintenance
from lakeward.spec.model.policy import Policy
from lakeward.tables.context import UNREADABLE, MaintenanceContext, class_of, thresholds
from lakeward.tables.facts import Profile, TableFacts, profile_of
from lakeward.tables.guard.positions import OffMain
from lakeward.tables.guard.readers import Reading
from lakeward.tables.needs import RegistryState, history_of, needs_of
from lakeward.tables.observe import delta, iceberg
from lakeward.tables.ownership import owned
from lakeward.tables.plan import ORDER, History, Needs, Plan, plan
from lakeward.tables.plan.advice import advice
from lakeward.tables.plan.delta import MIN_FILE_AGE
from lakeward.tables.plan.model import PlanDocument

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakeward.connectors.delta.state import State


class ShownTable(TypedDict):
    """A table and its plan. `told` is the table in a sentence, `advice` what a person could do."""

    table: str
    told: str
    plan: PlanDocument
    advice: list[str]


@dataclass(frozen=True)
class ObservedTable:
    """A loaded table (PyIceberg's, or the state of a Delta log) and its facts."""

    loaded: Table | State
    facts: TableFacts
    policy: Policy


@dataclass(frozen=True)
class TableObservation:
    """The inputs of a decision about one table, and the plan."""

    seen: ObservedTable
    needs: Needs
    problems: list[OffMain]
    history: History
    plan: Plan
    now: datetime
    readers: tuple[Reading, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def facts(self) -> TableFacts:
        return self.seen.facts


def load_facts(
    site: MaintenanceContext, table: str, around: RegistryState, known: Profile | None = None
) -> ObservedTable:
    """Load a table and read its facts; `known` avoids reading manifests when nothing changed.

    Raises:
        SpecError: there is no such table.
        DependencyDown: the catalog does not answer.
        LakewardError: its metadata cannot be read.
    """
    return worded(f"table {table}", lambda: _facts(site, table, around, known), next=UNREADABLE)


def _facts(site: MaintenanceContext, table: str, around: RegistryState, known: Profile | None) -> ObservedTable:
    folder = site.delta(table)
    if folder is not None:
        return _see_delta(site, table, folder, around, known)
    loaded = site.load(table)
    streams = tuple(streams_of(loaded.properties))
    policy = site.policy(table, class_of(table, around.writers, streams, external=site.external(table)))
    facts = iceberg.table_facts(loaded, lambda size, properties: thresholds(policy, size, properties), known)
    return ObservedTable(loaded, facts, policy)


def _see_delta(
    site: MaintenanceContext, table: str, folder: Folder, around: RegistryState, known: Profile | None
) -> ObservedTable:
    read = state.read(folder, known.snapshot_id if known is not None and known.snapshot_id is not None else -1)
    if read is None:
        raise SpecError(
            f"Table {table} no longer exists",
            why=f"The folder {folder} has no Delta table.",
            next="lakeward tables health",
            code="LW-4013",
        )
    policy = site.policy(table, class_of(table, around.writers, tuple(streams_of(read.domains)), delta=True))
    facts = delta.table_facts(table, read, lambda size, properties: thresholds(policy, size, properties), known)
    return ObservedTable(read, facts, policy)


def observe_table(
    connection: Connection,
    site: MaintenanceContext,
    seen: ObservedTable,
    around: RegistryState,
    selected: Collection[str] = ORDER,
    mine: Collection[int] = (),
    only: Collection[str] = (),
) -> TableObservation:
    """Decide what is due for an observed table; `only`: the partitions a person named.

    Raises:
        SpecError: the partition does not exist.
    """
    partitions = [part.key for part in seen.facts.profile.partitions]
    for name in only:
        if name not in partitions:
            raise SpecError(
                f"{seen.facts.table} has no partition {name!r}",
                why=f"Its partitions: {', '.join(partitions[:20]) or 'none'}{', ...' if len(partitions) > 20 else ''}.",
                next=f"lakeward tables plan {word(seen.facts.table)}",
                code="LW-4014",
            )
    now = datetime.now(UTC)
    needs, problems = needs_of(
        connection,
        seen.facts,
        around,
        now,
        has_suite=site.has_suite(seen.facts.table),
        roots=(site.runtime.checkpoints,),
        mine=mine,
        there=site.is_at,
        min_file_age=timedelta() if site.unsafe(seen.facts.table, "expire.older_than") else MIN_FILE_AGE,
    )
    history = history_of(connection, seen.facts.table)
    made = plan(seen.facts, seen.policy, needs, history, now, selected, only)
    held = needs.hold_until is not None and needs.hold_until > now
    made = owned(site, made, seen.facts, seen.loaded, seen.policy, now, held=held)
    name = seen.facts.table
    lines = advice(seen.facts, seen.policy.compact, around.feeds.get(name, ()), now)
    return TableObservation(seen, needs, problems, history, made, now, around.readers.get(name, ()), lines)


def register(connection: Connection, around: RegistryState, facts: TableFacts, *, external: bool) -> None:
    """Register the table, or update its row; `external`: of `MaintenanceContext`."""
    row = around.tables.get(facts.table)
    class_ = class_of(facts.table, around.writers, facts.streams, delta=facts.format == "delta", external=external)
    if row is None or row.location != facts.location or row.table_class != class_:
        maintenance.register(connection, facts.table, format=facts.format, location=facts.location, table_class=class_)


def known_profiles(connection: Connection) -> dict[str, Profile]:
    """Table -> the profile of its newest recorded facts, unless an older version of Lakeward recorded them."""
    found: dict[str, Profile] = {}
    for table, facts in maintenance.newest_facts(connection).items():
        profile = attempt(f"recorded facts of table {table}", partial(_profile, facts.facts))
        if isinstance(profile, Profile):  # otherwise the manifests are read, and the facts recorded again
            found[table] = profile
    return found


def _profile(recorded: Mapping[str, Any]) -> Profile | None:
    profile = recorded.get("profile")
    if isinstance(profile, dict) and all("untouched" in part for part in profile["partitions"]):
        return profile_of(profile)
    return None


def shown(there: TableObservation) -> ShownTable:
    """The document of a table and its plan, before a maintenance run acts."""
    facts, made = there.facts, there.plan.document()
    return {"table": facts.table, "told": summary(facts), "plan": made, "advice": list(there.advice)}


def summary(facts: TableFacts) -> str:
    """A table in one line of a log: files, history, writers."""
    found = facts.profile
    writers = f"; written by {', '.join(f'stream {each}' for each in facts.streams)}" if facts.streams else ""
    return (
        f"{facts.table}: {count(found.files, 'file')}, {found.small_files} small, {size(found.bytes)}, "
        f"{count(found.records, 'record')} in {count(len(found.partitions), 'partition')}; "
        f"{count(len(facts.snapshots), 'snapshot')}, {count(found.manifests, 'manifest')}{writers}"
    )
