"""One look at one table: facts, policy, needs, history, and the plan they make."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from lakeward.connectors.exact.position import streams_of
from lakeward.registry import maintenance
from lakeward.spec.policy import Policy
from lakeward.tables.facts import Profile, TableFacts, profile_of
from lakeward.tables.guard.positions import OffMain
from lakeward.tables.guard.readers import Reading
from lakeward.tables.needs import Surroundings, history_of, needs_of
from lakeward.tables.observe.iceberg import table_facts
from lakeward.tables.plan import ORDER, History, Needs, Plan, plan
from lakeward.tables.site import Site, class_of, thresholds

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class Seen:
    """A table as it was loaded, and its facts."""

    loaded: Table
    facts: TableFacts
    policy: Policy


@dataclass(frozen=True)
class Look:
    """Everything a decision about one table stands on, and the decision."""

    seen: Seen
    needs: Needs
    problems: list[OffMain]
    history: History
    plan: Plan
    now: datetime
    readers: tuple[Reading, ...] = ()

    @property
    def facts(self) -> TableFacts:
        return self.seen.facts


def see(site: Site, table: str, around: Surroundings, known: Profile | None = None) -> Seen:
    """Load a table and read its facts; `known` spares the manifests when nothing changed."""
    loaded = site.load(table)
    policy = site.policy(table, class_of(table, around.writers, tuple(streams_of(loaded.properties))))
    facts = table_facts(loaded, lambda size, properties: thresholds(policy, size, properties), known)
    return Seen(loaded, facts, policy)


def look(
    connection: Connection,
    site: Site,
    seen: Seen,
    around: Surroundings,
    wanted: Collection[str] = ORDER,
    mine: Collection[int] = (),
) -> Look:
    """Decide what is due for a table that was just seen."""
    now = datetime.now(UTC)
    needs, problems = needs_of(
        connection,
        seen.facts,
        around,
        now,
        has_suite=site.has_suite(seen.facts.table),
        roots=(site.runtime.checkpoints,),
        mine=mine,
    )
    history = history_of(connection, seen.facts.table)
    made = plan(seen.facts, seen.policy, needs, history, now, wanted)
    return Look(seen, needs, problems, history, made, now, around.readers.get(seen.facts.table, ()))


def register(connection: Connection, around: Surroundings, facts: TableFacts) -> None:
    """Make the table known, or refresh what is known of it."""
    row = around.tables.get(facts.table)
    class_ = class_of(facts.table, around.writers, facts.streams)
    if row is None or row.location != facts.location or row.table_class != class_:
        maintenance.register(connection, facts.table, format=facts.format, location=facts.location, table_class=class_)


def known_profiles(connection: Connection) -> dict[str, Profile]:
    """Table -> the profile of its newest recorded facts."""
    found: dict[str, Profile] = {}
    for table, facts in maintenance.newest_facts(connection).items():
        profile: Mapping[str, Any] | None = facts.get("profile")
        if profile is not None:
            found[table] = profile_of(profile)
    return found
