"""Plans the merge of position delete files (`rewrite_position_delete_files`), each of which readers have to open.

Spark's writers keep one delete file for each data file and merge new deletes into it, so none accumulate. In tables
with `write.delete.granularity=partition`, and of other engines, each commit adds one. A merge leaves one for each data
file, or one for all; the others are *excess*, and there is none afterwards (fixed point). Files with many deleted rows
are rewritten by a compaction instead.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from lakeward.platform.text import count, span
from lakeward.spec.model.policy import Deletes
from lakeward.tables.facts import PartitionFacts, TableFacts
from lakeward.tables.plan.model import Action, History, NotPlanned


def plan_deletes(
    facts: TableFacts, policy: Deletes, history: History, now: datetime, only: Collection[str] = ()
) -> Action | NotPlanned:
    """The merge of a table's position deletes in all due partitions; `only`: of these."""
    if facts.format == "delta":
        if not facts.profile.delete_files:
            return NotPlanned("deletes", "a Delta table has none")
        held = count(facts.profile.delete_files, "file") + " with a deletion vector"
        return NotPlanned("deletes", f"{held}; compaction rewrites those with many deleted rows")
    if facts.format_version >= 3:
        return NotPlanned("deletes", "format 3 has at most one deletion vector for a data file")
    if why := facts.ambiguous_columns():
        return NotPlanned("deletes", why)
    if odd := [name for name in facts.partition_fields if "`" in name]:
        # Iceberg 1.12 puts the name between backticks as it is, so Spark refuses the attribute: partition.`a`b`.
        return NotPlanned("deletes", f"Iceberg cannot merge them: partition field {odd[0]} has a backtick in its name; "
                          "compaction rewrites files with many deleted rows")  # fmt: skip
    parts = [part for part in facts.profile.partitions if not only or part.key in only]
    due = sorted((part for part in parts if part.excess_deletes >= policy.min_delete_files), key=_excess, reverse=True)
    if not due:
        most = max((part.excess_deletes for part in parts), default=0)
        held = count(facts.profile.delete_files, "delete file")
        if facts.profile.equality_deletes:
            held += f", of which {facts.profile.equality_deletes} delete by value: only compaction applies these"
        return NotPlanned("deletes", f"{held}, {most} more than one partition needs (limit {policy.min_delete_files})")
    why = f"{count(due[0].delete_files, 'delete file')}, {due[0].excess_deletes} more than needed"
    why += f" (limit {policy.min_delete_files})" if len(due) == 1 else f" in the fullest of {len(due)} partitions"
    last = history.done.get("deletes")
    ready = last + policy.every.timedelta if last else now
    if ready > now:
        return NotPlanned("deletes", f"{why}, but merged {span(now - (last or now))} ago", ready)
    selected = all(part.where for part in due)
    return Action(
        "deletes",
        why,
        partitions=tuple(part.key for part in due),
        files=sum(part.excess_deletes for part in due),
        where=tuple(part.where or "" for part in due) if selected else (),
    )


def _excess(part: PartitionFacts) -> int:
    return part.excess_deletes
