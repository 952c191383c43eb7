"""Plans the daily tag of a table, for reads of the past week while snapshots are retained for a day."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final

from lakeward.platform.text import span
from lakeward.spec.model.policy import Tags
from lakeward.tables.facts import TableFacts, gc_disabled
from lakeward.tables.plan.model import Action, NotPlanned, Tag

DAILY: Final = "lakeward-"
"""Prefix of daily tags; a day follows, as `2026-03-01`."""


def plan_tags(facts: TableFacts, policy: Tags, now: datetime) -> Action | NotPlanned:
    """The tag on the table's snapshot at the end of yesterday (UTC), if it changed since the previous tag.

    Iceberg's expiry drops a tag once its snapshot is older than the tag's maximum age.
    """
    if not policy.enabled:
        return NotPlanned("tags", "switched off by policy")
    if facts.format == "delta":
        return NotPlanned("tags", "a Delta table has none")
    if gc_disabled(facts.properties):
        return NotPlanned("tags", "gc.enabled is false: its files may belong to another table")
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    tomorrow = today + timedelta(days=1)
    name = f"{DAILY}{today - timedelta(days=1):%Y-%m-%d}"
    max_age = timedelta(minutes=math.ceil(policy.keep.timedelta / timedelta(minutes=1)))  # as SQL says it
    last = next((snapshot for snapshot in facts.main() if snapshot.at < today), None)
    if last is None:
        return NotPlanned("tags", "its history begins today", tomorrow)
    if name in facts.refs:
        return NotPlanned("tags", f"tag {name} exists", tomorrow)
    same = [ref for ref, at in facts.refs.items() if ref.startswith(DAILY) and at.snapshot_id == last.id]
    if same:
        return NotPlanned("tags", f"nothing was committed since tag {max(same)}", tomorrow)
    if now - last.at >= max_age:
        return NotPlanned("tags", f"nothing was committed for {span(now - last.at)}", tomorrow)
    return Action(
        "tags", f"the table at the end of {today - timedelta(days=1):%Y-%m-%d}, kept for {span(max_age)}",
        tag=Tag(name, last.id, max_age),
    )  # fmt: skip
