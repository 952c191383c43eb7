"""Plans compaction: which partitions' small files, and files with many deleted rows, are rewritten.

A partition that is no longer written (cold) gets one final pass. In a partition in use, fragments are rewritten once
enough have gathered, or fewer after a time. The output of a rewrite no longer meets the rule that caused it: outputs of
a fragment pass are not fragments, and the ledger records a final pass (fixed point).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakeward.platform.text import count, size, span
from lakeward.spec.model.policy import Compact
from lakeward.spec.model.table_layout import SortOrder
from lakeward.tables.facts import PartitionFacts, TableFacts, Thresholds
from lakeward.tables.plan.cost import Pace, pace
from lakeward.tables.plan.model import Action, History, NotPlanned, Rewrite

CONTESTED = 2  # after this many failed rewrites in a row a partition waits until its writers have ended,
CONTESTED_FOR = timedelta(hours=6)  # but no longer than this
AT_ONCE = 40  # maximum partitions in one statement, to keep its condition and its commit small


@dataclass(frozen=True)
class Due:
    """The decision about one partition. `mode` is empty when it is not due; then `next_at` is when it will be."""

    partition: PartitionFacts
    mode: str
    why: str
    next_at: datetime | None = None

    @property
    def files(self) -> int:
        part = self.partition
        known = {"fragments": part.fragments, "deletes": part.deleted, "layout": part.files}
        return known.get(self.mode, part.small)

    @property
    def bytes(self) -> int:
        part = self.partition
        known = {"fragments": part.fragment_bytes, "deletes": part.deleted_bytes, "layout": part.bytes}
        return known.get(self.mode, part.small_bytes)


def judge(
    part: PartitionFacts,
    policy: Compact,
    thresholds: Thresholds,
    finished: datetime | None,
    now: datetime,
    failed: tuple[int, datetime] | None = None,
) -> Due:
    """Whether one partition is due, in which mode, and why: by its small files, else by its deleted rows.

    Args:
        part: its files.
        policy, thresholds: the limits.
        finished: when it got its final layout; None: never.
        now: the moment ages are measured from.
        failed: number of failed rewrites in a row, and the time of the last; None: no failure.
    """
    if part.untouched:
        return Due(part, "", part.untouched)
    return _worth(_need(part, policy, thresholds, finished, now, failed), thresholds)


def _worth(found: Due, thresholds: Thresholds) -> Due:
    """Not due if files of an earlier partition spec would become more files than they are."""
    part = found.partition
    if not found.mode or not part.stale:
        return found
    spec = "the table's current partition spec"
    if part.makes is None:
        why = f"how many partitions {spec} makes of {count(part.stale, 'file')} of an earlier one is not known"
        return Due(part, "", f"{found.why}, but {why}", found.next_at)
    gives = _given(found, thresholds)
    if gives < found.files or (found.mode == "deletes" and gives == found.files):
        return found
    return Due(part, "", f"{found.why}, but {spec} makes {count(gives, 'file')} of {found.files}", found.next_at)


def _need(
    part: PartitionFacts,
    policy: Compact,
    thresholds: Thresholds,
    finished: datetime | None,
    now: datetime,
    failed: tuple[int, datetime] | None,
) -> Due:
    found = _by_size(part, policy, thresholds, finished, now, failed)
    if found.mode or not part.deleted:
        return found
    why = f"{thresholds.deleted:.0%} or more of the rows of {count(part.deleted, 'file')} are deleted"
    if part.opened >= thresholds.opened:
        why = f"reads of {count(part.deleted, 'file')} open up to {count(part.opened, 'equality-delete file')}"
        why += f" (limit {thresholds.opened}), {part.deleted_rows} of {part.records} rows deleted"
    if _lost(failed, now):
        return replace(found, why=f"{why}; {found.why}")
    rewritten = _newest(part.last_rewritten, finished)
    cooled = rewritten + policy.cooldown.timedelta if rewritten else now
    if cooled > now:
        next_at = min(each for each in (found.next_at, cooled) if each is not None)
        return Due(part, "", f"{why}, but it was rewritten {span(now - (rewritten or now))} ago", next_at)
    return Due(part, "deletes", why)


def _by_size(
    part: PartitionFacts,
    policy: Compact,
    thresholds: Thresholds,
    finished: datetime | None,
    now: datetime,
    failed: tuple[int, datetime] | None,
) -> Due:
    written, rewritten = part.last_written, _newest(part.last_rewritten, finished)
    idle = now - written if written else None
    if finished is not None and (written is None or written <= finished):
        return Due(part, "", f"nothing was written since its final pass {span(now - finished)} ago")
    if idle is not None and rewritten is not None and idle > policy.look_back.timedelta and written <= rewritten:  # type: ignore[operator]  # idle implies written
        return Due(part, "", f"not written for {span(idle)}")
    if idle is None or idle >= policy.cold_after.timedelta:
        since = f"not written for {span(idle)}" if idle is not None else "written before the retained history"
        if policy.sort_order is not None and finished is None and idle is not None:
            return Due(part, "layout", f"{since}: {count(part.files, 'file')} put in order by {policy.sort_order}")
        if part.small > policy.cold_min_files:
            return Due(part, "final", f"{count(part.small, 'small file')}, {since}: final pass")
        return Due(
            part, "", f"{since}, {count(part.small, 'small file')} (a final pass needs {policy.cold_min_files + 1})"
        )
    ready = written + policy.cold_after.timedelta if written and part.small > policy.cold_min_files else None
    fires, why = _gathered(part, policy, thresholds)
    if not fires:
        fires, why, late_at = _late(part, policy, rewritten, now)
        ready = min((each for each in (ready, late_at) if each is not None), default=None)
    if not fires:
        return Due(part, "", why, ready)
    if failed is not None and _lost(failed, now):
        next_at = min(each for each in (ready, failed[1] + CONTESTED_FOR) if each is not None)
        return Due(
            part, "", f"{why}, but its rewrite failed {failed[0]} times: waits until its writers have ended", next_at
        )
    cooled = rewritten + policy.cooldown.timedelta if rewritten else now
    if cooled > now and part.fragments < policy.waive_cooldown_at * policy.min_fragments:
        return Due(part, "", f"{why}, but it was rewritten {span(now - (rewritten or now))} ago", cooled)
    return Due(part, "fragments", why)


def _lost(failed: tuple[int, datetime] | None, now: datetime) -> bool:
    """Whether the partition's writers have won recent races."""
    return failed is not None and failed[0] >= CONTESTED and failed[1] + CONTESTED_FOR > now


def _gathered(part: PartitionFacts, policy: Compact, thresholds: Thresholds) -> tuple[bool, str]:
    enough = policy.fragment_bytes_ratio * thresholds.target
    if part.fragments >= policy.min_fragments:
        return True, f"{part.fragments} fragments (limit {policy.min_fragments})"
    if part.fragments > 1 and part.fragment_bytes >= enough:
        return True, f"{size(part.fragment_bytes)} in fragments (limit {size(enough)})"
    return False, f"{part.fragments} of {policy.min_fragments} fragments, {size(part.fragment_bytes)}"


def _late(
    part: PartitionFacts, policy: Compact, rewritten: datetime | None, now: datetime
) -> tuple[bool, str, datetime | None]:
    if part.fragments < policy.late_min_fragments:
        return False, f"{part.fragments} of {policy.min_fragments} fragments", None
    # A fragment older than the retained history counts as late.
    since = _newest(rewritten, part.oldest_fragment)
    due_at = since + policy.late_after.timedelta if since else now
    waited = span(now - since) if since else "since before the retained history"
    why = f"{part.fragments} fragments, waiting {waited}"
    return due_at <= now, why if due_at <= now else f"{part.fragments} of {policy.min_fragments} fragments", due_at


def plan_compact(
    facts: TableFacts, policy: Compact, history: History, now: datetime, only: Collection[str] = ()
) -> Action | NotPlanned:
    """The compaction of a table, within the run's limits, fullest partitions first. `only`: of these partitions."""
    if not policy.enabled:
        return NotPlanned("compact", "switched off by policy")
    if why := facts.ambiguous_columns():
        return NotPlanned("compact", why)
    thresholds = facts.profile.thresholds
    policy, unordered = _orderable(facts, policy)
    every = facts.profile.partitions
    parts = [part for part in every if not only or part.key in only]
    verdicts = [
        judge(part, policy, thresholds, _finished(part, history), now, history.contested.get(part.key))
        for part in parts
    ]
    due = sorted((verdict for verdict in verdicts if verdict.mode), key=lambda verdict: -verdict.files)
    protected = next((part for part in every if part.untouched), None)
    if due and protected is not None and any(not due_part.partition.where for due_part in due):
        name = next(due_part.partition.key for due_part in due if not due_part.partition.where)
        why = f"no SQL condition leaves out {protected.key} in a rewrite of {name}: {protected.untouched}"
        return NotPlanned("compact", why)
    if not due:
        found = _why_not(verdicts)
        return replace(found, why=found.why + unordered)
    if len(parts) < len(every) and any(not due_part.partition.where for due_part in due):
        name = next(due_part.partition.key for due_part in due if not due_part.partition.where)
        return NotPlanned("compact", f"no SQL condition selects {name} alone; compact all partitions instead")
    chosen = _within(due, policy, pace("compact", history.paces))
    # A later final pass sorts the files it rewrites; Delta would rewrite every file again.
    of_rest = None if facts.format == "delta" else policy.sort_order
    orders = {"fragments": None, "final": of_rest, "layout": policy.sort_order, "deletes": None}
    rewrites = tuple(
        rewrite for mode, order in orders.items() for rewrite in _rewrites(mode, chosen, thresholds, len(every), order)
    )
    remaining = len(due) - len(chosen)
    why = chosen[0].why if len(due) == 1 else f"{count(len(due), 'partition')} due, the fullest has {chosen[0].why}"
    return Action(
        "compact",
        why + (f"; {count(remaining, 'partition')} left for the next run" if remaining else "") + unordered,
        partitions=tuple(due_part.partition.key for due_part in chosen),
        files=sum(due_part.files for due_part in chosen),
        size_bytes=sum(due_part.bytes for due_part in chosen),
        rewrites=rewrites,
    )


def _finished(part: PartitionFacts, history: History) -> datetime | None:
    """When the partition got its final layout, as far as the engine can reach it.

    A final pass that left more files than promised is not repeated while its output exists: the next would do the same.
    """
    done, tried = history.finished.get(part.key), history.tried.get(part.key)
    if tried is None or part.last_rewritten is None or part.last_rewritten < tried:
        return done
    return _newest(done, tried)


def _within(due: list[Due], policy: Compact, known: Pace) -> list[Due]:
    """As many as the run's limits allow: files, bytes, and the table's measured pace."""
    most = min(policy.max_size.bytes, known.amount(policy.max_duration.seconds))
    chosen: list[Due] = []
    files = bytes_ = 0
    for due_part in due:
        if chosen and (files + due_part.files > policy.max_files or bytes_ + due_part.bytes > most):
            continue
        chosen.append(due_part)
        files, bytes_ = files + due_part.files, bytes_ + due_part.bytes
    return chosen


def _orderable(facts: TableFacts, policy: Compact) -> tuple[Compact, str]:
    """The policy without a sort order that this table cannot have, and the reason; small files are compacted anyway."""
    order = policy.sort_order
    if order is None:
        return policy, ""
    missing = [column for column in order.columns if column not in facts.columns]
    if missing:
        why = f"the table has no column {', '.join(missing)}; its columns: {', '.join(facts.columns)}"
    elif facts.format == "delta" and not order.zorder:
        why = f"Delta orders rows by zorder(...) alone; write zorder({', '.join(order.columns)})"
    else:
        return policy, ""
    return policy.model_copy(update={"sort_order": None}), f"; not in the order {order}: {why}"


def _rewrites(
    mode: str, chosen: list[Due], thresholds: Thresholds, all_parts: int, order: SortOrder | None
) -> Iterable[Rewrite]:
    held = [due_part for due_part in chosen if due_part.mode == mode]
    whole = len(held) == all_parts or any(not due_part.partition.where for due_part in held)
    below = {"fragments": thresholds.fragment, "deletes": 0}.get(mode, thresholds.small)
    step = max(len(held), 1) if whole else AT_ONCE
    for start in range(0, len(held), step):
        group = held[start : start + step]
        yield Rewrite(
            mode=mode,
            partitions=tuple(due_part.partition.key for due_part in group),
            where=() if whole else tuple(due_part.partition.where or "" for due_part in group),
            below=below,
            target=thresholds.target,
            takes=sum(due_part.files for due_part in group),
            gives=sum(_given(due_part, thresholds) for due_part in group),
            takes_bytes=sum(due_part.bytes for due_part in group),
            delete_files=sum(due_part.partition.delete_files or due_part.partition.opened for due_part in group),
            shared_deletes=mode == "deletes" and any(due_part.partition.shared_deletes for due_part in group),
            deleted=thresholds.deleted,
            order=order,
        )


def _given(due: Due, thresholds: Thresholds) -> int:
    """The maximum number of files that is promised."""
    part = due.partition
    if due.mode == "deletes":  # it removes deleted rows; the number of files is unchanged
        return due.files if not part.stale else max(due.files, part.makes or 0)
    full = -(-max(due.bytes, 1) // thresholds.target)
    if part.stale:  # the engine rewrites files of earlier specs apart from the others
        full += (part.makes or 1) - 1 + (due.files > part.stale)
    # Sorted rows compress differently, and each file group ends with a file that is not full.
    return 2 * full + 1 if due.mode == "layout" else full


def _why_not(verdicts: list[Due]) -> NotPlanned:
    if not verdicts:
        return NotPlanned("compact", "the table has no files")
    nearest = max(verdicts, key=lambda verdict: (verdict.partition.fragments, verdict.partition.small))
    times = [verdict.next_at for verdict in verdicts if verdict.next_at is not None]
    name = f"{nearest.partition.key}: " if nearest.partition.key else ""
    rest = f" (fullest of {len(verdicts)} partitions)" if len(verdicts) > 1 else ""
    return NotPlanned("compact", f"{name}{nearest.why}{rest}", min(times, default=None))


def _newest(*moments: datetime | None) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)
