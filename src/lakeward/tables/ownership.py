"""Asks whose the files are that a planned action would delete, now or with later commits, or an erase would rewrite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from lakeward.connectors.delta.state import State
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.iceberg.catalogs.refusals import Forbidden
from lakeward.connectors.iceberg.file_io import files_of
from lakeward.platform.errors import LakewardError
from lakeward.spec.model.suite import POINTER_OF, pointer_name
from lakeward.spec.sql.names import dotted
from lakeward.tables.expiry import outside
from lakeward.tables.facts import gc_disabled
from lakeward.tables.guard.owners import Others, Owners, inside
from lakeward.tables.observe.listing import strangers_of_delta
from lakeward.tables.observe.references import hinted, references
from lakeward.tables.plan.expire import expirable
from lakeward.tables.plan.metadata import DELETE, kept_for_others
from lakeward.tables.plan.model import Action, NotPlanned, Plan
from lakeward.tables.plan.owners import (
    erase_refused,
    hint_refused,
    metadata_refused,
    outside_refused,
    vacuum_refused,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakeward.spec.model.policy import Policy
    from lakeward.tables.context import MaintenanceContext
    from lakeward.tables.facts import TableFacts

_MOST: Final = 10_000  # files of other tables that are counted


def owned(
    site: MaintenanceContext,
    made: Plan,
    facts: TableFacts,
    loaded: Table | State,
    policy: Policy,
    now: datetime,
    *,
    held: bool = False,
) -> Plan:
    """The plan without actions that would delete files which others may read, with the reasons.

    Args:
        held: whether a person holds the table: nothing is added to the plan.
    """

    def expiry(action: Action) -> NotPlanned | None:
        if isinstance(loaded, State):
            return _vacuum(site, facts, loaded)
        return _expiry(site, facts, loaded, policy, action, now)

    def metadata(action: Action) -> NotPlanned | None:
        if isinstance(loaded, State) or DELETE not in action.properties:
            return None
        led = next(hinted(loaded, files_of(site.runtime.lake, loaded).content), None)
        if led is not None:
            return hint_refused(led.path)
        with Owners.of(site) as owners:
            return metadata_refused(owners.others(loaded.name()).sharing(loaded.metadata.location))

    left = _without(_without(made, "expire", expiry), "metadata", metadata)
    return left if held or isinstance(loaded, State) else _metadata_kept(site, left, facts, loaded, policy)


def _metadata_kept(site: MaintenanceContext, made: Plan, facts: TableFacts, table: Table, policy: Policy) -> Plan:
    """The plan in which no commit will delete a metadata file at which another table is."""
    every: tuple[Action | NotPlanned, ...] = (*made.actions, *made.not_planned)
    planned = next((each for each in every if each.action == "metadata"), None)
    if planned is None or not policy.metadata.enabled or not policy.maintain or gc_disabled(facts.properties):
        return made
    if isinstance(planned, NotPlanned) and planned.next_at is not None:
        return made  # held by a person, or it failed
    begins = site.begins_in([entry.metadata_file for entry in table.metadata.metadata_log], table.name())
    now = kept_for_others(planned, facts, begins)
    if now is planned:
        return made
    actions = tuple(each for each in made.actions if each is not planned)
    not_planned = tuple(each for each in made.not_planned if each is not planned)
    if isinstance(now, Action):
        return replace(made, actions=(now, *actions), not_planned=not_planned)
    return replace(made, actions=actions, not_planned=(*not_planned, now))


def _without(made: Plan, name: str, ask: Callable[[Action], NotPlanned | None]) -> Plan:
    """The plan without this action if it is refused, or cannot be judged."""
    action = made.action(name)
    if action is None:
        return made
    try:
        refused = ask(action)
    except Forbidden as error:  # other actions go on
        refused = NotPlanned(name, f"whose its files are is not known: {error.what}: {error.why}", refused=True)
    except LakewardError:
        raise
    except Exception as error:  # noqa: BLE001 - boundary: files whose owner cannot be read are not deleted
        words = (str(error).splitlines() or [type(error).__name__])[0]
        refused = NotPlanned(name, f"whose its files are cannot be read: {words}", refused=True)
    if refused is None:
        return made
    return replace(
        made,
        actions=tuple(each for each in made.actions if each is not action),
        not_planned=(*made.not_planned, refused),
    )


def _expiry(
    site: MaintenanceContext, facts: TableFacts, table: Table, policy: Policy, action: Action, now: datetime
) -> NotPlanned | None:
    if policy.expire.outside_files != "refuse":
        return None
    with Owners.of(site) as owners:
        found = outside(owners, table, expirable(facts, action.cutoff, action.retain_last, now))
        if not found:
            return None
        return outside_refused(found, _claims(owners.others(table.name()), found, facts.location))


def _vacuum(site: MaintenanceContext, facts: TableFacts, state: State) -> NotPlanned | None:
    live = {unquote(path) for path in state.files}
    with Owners.of(site) as owners:
        others = owners.others(facts.table)
        named = [each for each in islice(others.named_below(facts.location), _MOST) if each[0] not in live]
        return vacuum_refused(named, others.sharing(facts.location), others.unknown)


def vacuum_obstacle(site: MaintenanceContext, folder: str) -> str:
    """Why a VACUUM would delete what is no part of a Delta table, as a clause; empty if not. Lists its folder."""
    found = next(strangers_of_delta(FileAccess(site.runtime.lake).walk(folder)), "")
    return f"its folder has {found}, whose files VACUUM would delete: move it elsewhere" if found else ""


def erase_obstacle(site: MaintenanceContext, table: Table) -> str:
    """Why rows of a table cannot be erased because of files that may be another table's; empty if they can."""
    name, location = dotted(table.name()), table.metadata.location
    with Owners.of(site) as owners:
        suspects = owners.outside(table)
        found = (
            sorted({each.path for each in references(table, set()) if not inside(each.path, location)})
            if suspects
            else []
        )
        others = owners.others(table.name())
        named = [each for each in islice(others.named_below(location), _MOST) if not _points_at(site, each[1], name)]
        return erase_refused(named, found, _claims(others, found, location), others.overlap(location))


def _points_at(site: MaintenanceContext, table: str, name: str) -> bool:
    """Whether it is the pointer table of this table, which follows the next check."""
    return table == pointer_name(name) and site.load(table).properties.get(POINTER_OF) == name


def _claims(others: Others, paths: list[str], location: str) -> dict[str, str]:
    return {path: why for path in paths if (why := others.claim(path, location))}
