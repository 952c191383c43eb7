"""Whether a stream commits faster than its table is put in order: a verdict, nothing more.

Commits count only while files wait to be rewritten: a stream of large files needs no rewrite and may go on for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lakeward.spec.policy import Compact
from lakeward.tables.facts import TableFacts

WARN, LENGTHEN, HOLD = 500, 750, 1000  # commits since the last good rewrite

Level = Literal["ok", "warn", "lengthen", "hold"]


@dataclass(frozen=True)
class Pressure:
    """The verdict.

    Attributes:
        level: `warn` tells a person; `lengthen` doubles the trigger and `hold` pauses the stream where that is wanted.
        commits: on main since the last good rewrite, as far back as history is retained.
        why: one sentence, empty when all is well.
    """

    level: Level
    commits: int
    why: str = ""


def pressure(facts: TableFacts, policy: Compact, rewritten: datetime | None) -> Pressure:
    """Judge a table.

    Args:
        facts: the table now.
        policy: its thresholds of compaction.
        rewritten: when its last good compaction ended; None: never.
    """
    since = [
        each for each in facts.main() if each.operation != "replace" and (rewritten is None or each.at > rewritten)
    ]
    commits = len(since)
    waiting = max((each.fragments for each in facts.profile.partitions), default=0)
    if commits < WARN or waiting < policy.min_fragments:
        return Pressure("ok", commits)
    level: Level = "hold" if commits >= HOLD else "lengthen" if commits >= LENGTHEN else "warn"
    last = f"the last good rewrite at {rewritten:%Y-%m-%d %H:%M}" if rewritten else "its history began, none rewritten"
    return Pressure(level, commits, f"{commits} commits since {last}, {waiting} fragments in one partition")
