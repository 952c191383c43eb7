"""Plans all actions of one table, in the order they run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from lakeward.connectors.delta import properties as delta_properties
from lakeward.platform.text import minute
from lakeward.spec.model import iceberg_properties as properties
from lakeward.spec.model.policy import Policy
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan.compact import plan_compact
from lakeward.tables.plan.cost import pace
from lakeward.tables.plan.deletes import plan_deletes
from lakeward.tables.plan.delta import plan_log, plan_vacuum
from lakeward.tables.plan.expire import plan_expire
from lakeward.tables.plan.metadata import plan_manifests, plan_metadata
from lakeward.tables.plan.model import Action, History, Needs, NotPlanned, Plan
from lakeward.tables.plan.tags import plan_tags

ORDER = ("compact", "deletes", "manifests", "tags", "expire", "metadata")
FAILURES = 3
BACK_OFF = timedelta(hours=6)
IDLE = 5  # after this many runs without a change an action is planned half as often


def plan(
    facts: TableFacts,
    policy: Policy,
    needs: Needs,
    history: History,
    now: datetime,
    selected: Collection[str] = ORDER,
    only: Collection[str] = (),
) -> Plan:
    """The plan of one table.

    Args:
        facts: the table now.
        policy: its resolved policy.
        needs: the needs of streams, checks and people.
        history: the history of maintenance.
        now: the moment every age is measured from.
        selected: the actions to plan. Naming an action does not make it due.
        only: the partitions to plan; all by default.
    """
    found: list[Action | NotPlanned] = []
    for name in (each for each in ORDER if each in selected):
        stop = _stopped(name, facts, policy, needs, history, now)
        if stop is not None:
            found.append(stop)
        elif name == "compact":
            found.append(plan_compact(facts, policy.compact, history, now, only))
        elif name == "deletes":
            found.append(plan_deletes(facts, policy.deletes, history, now, only))
        elif name == "tags":
            found.append(plan_tags(facts, policy.tags, now))
        elif facts.format == "delta":
            found.append(_of_delta(name, facts, policy, needs, history, now))
        elif name == "metadata":
            found.append(plan_metadata(facts, policy.metadata))
        elif name == "manifests":
            found.append(plan_manifests(facts, policy.manifests, history, now))
        else:
            found.append(plan_expire(facts, policy.expire, needs, history, now))
    if not policy.maintain:
        found = [only_observed(each) if isinstance(each, Action) else each for each in found]
    return Plan(
        table=facts.table,
        snapshot_id=facts.snapshot_id,
        actions=tuple(_timed(each, history) for each in found if isinstance(each, Action)),
        not_planned=tuple(each for each in found if isinstance(each, NotPlanned)),
    )


def only_observed(action: Action) -> NotPlanned:
    """What is said of an action that the policy does not allow."""
    return NotPlanned(action.action, f"only observed (maintain: false); it is due: {action.why}")


def _of_delta(
    name: str, facts: TableFacts, policy: Policy, needs: Needs, history: History, now: datetime
) -> Action | NotPlanned:
    if name == "manifests":
        return NotPlanned("manifests", "a Delta table has none")
    if name == "metadata":
        return plan_log(facts, policy, needs, now)
    return plan_vacuum(facts, policy.expire, needs, history, now)


def _timed(action: Action, history: History) -> Action:
    amount = action.size_bytes if action.action == "compact" else action.files
    return replace(action, expected_s=pace(action.action, history.paces).seconds(amount))


def _stopped(
    name: str, facts: TableFacts, policy: Policy, needs: Needs, history: History, now: datetime
) -> NotPlanned | None:
    if needs.forbidden:
        return NotPlanned(name, needs.forbidden, refused=True)
    if needs.hold_until is not None and needs.hold_until > now:
        return NotPlanned(name, f"held by a person until {minute(needs.hold_until)}", needs.hold_until)
    if facts.format == "iceberg" and (wrong := properties.unreadable(facts.properties)):
        # Every commit fails until the property is set right, also for those whose failures it waits for.
        said = f"{properties.words(facts.properties, wrong)}: action metadata sets it right first"
        return None if name == "metadata" else NotPlanned(name, said, refused=True)
    if facts.format == "delta" and (name == "metadata" or name in delta_properties.ACTS):
        if name == "metadata" and delta_properties.unreadable(facts.properties):
            return None
        if name != "metadata" and (odd := delta_properties.stopping(facts.properties, name)):
            said = delta_properties.words(odd)
            return NotPlanned(name, f"{said}: action metadata sets it right first", refused=True)
    count, last = history.failures.get(name, (0, now))
    wait = BACK_OFF if count >= FAILURES else timedelta()
    idle, seen = history.idle.get(name, (0, now))
    if idle >= IDLE:
        last, wait = max(last, seen) if wait else seen, 2 * max(wait, _interval(name, policy))
    if last + wait <= now:
        return None
    if idle >= IDLE:
        return NotPlanned(name, f"changed nothing {idle} times in a row; planned half as often", last + wait)
    return NotPlanned(name, f"failed {count} times in a row; waits before the next try", last + wait)


def _interval(name: str, policy: Policy) -> timedelta:
    """The minimum time between two runs of an action."""
    if name in ("compact", "tags", "metadata"):
        return policy.compact.cooldown.timedelta
    every = {"deletes": policy.deletes.every, "manifests": policy.manifests.every}.get(name, policy.expire.every)
    return every.timedelta
