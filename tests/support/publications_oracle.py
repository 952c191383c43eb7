"""What `verified` may show, told from the rows of the table and from what people allowed. Knows nothing of ranges.

Rows say themselves what is wrong with them. A snapshot may be published when every wrong row in it was excused, by a
waiver in force when a run looked at it that then was kept, or by a person who released it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeward.quality.ranges import metadata
from lakeward.quality.ranges.snapshot_chain import History
from lakeward.quality.runs.engines import Engines
from lakeward.registry import verifications

if TYPE_CHECKING:
    from pyiceberg.table import Table

Wrong = frozenset[tuple[int, str]]
"""Rows that must not be published unless excused: their ids, and what is wrong with each."""
SANE, HUGE = 500.0, 20_000.0


@dataclass
class Oracle:
    """Follows one table.

    Attributes:
        allowed: wrong rows that somebody excused.
        proven: snapshots of runs that were kept and publish.
        by_hand: the snapshot to which a person moved the branch; until a run has looked.
    """

    engines: Engines
    table: str
    allowed: set[tuple[int, str]] = field(default_factory=set)
    proven: set[int] = field(default_factory=set)
    by_hand: int | None = None
    _wrong: dict[int, Wrong] = field(default_factory=dict)
    _last: int | None = None
    _rows: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def history(self) -> History:
        """The table's metadata as it is now."""
        return _history(self.engines.lake, self.table)

    def wrong_rows(self, snapshot: int) -> Wrong:
        """The wrong rows of a snapshot, read from its files."""
        if snapshot not in self._wrong:
            table: Table = self.engines.lake.load_table(self.table)
            rows = table.scan(snapshot_id=snapshot).to_arrow()
            columns = [column.to_pylist() for column in rows.columns]
            self._wrong[snapshot] = frozenset(
                (id, kind) for id, carrier, delay in zip(*columns, strict=True) for kind in _kinds(carrier, delay)
            )
        return self._wrong[snapshot]

    def note_held(self, snapshot: int, waived: set[str]) -> None:
        """A run that publishes this snapshot was kept; when it looked, these kinds were waived."""
        self.proven.add(snapshot)
        self.allowed |= {each for each in self.wrong_rows(snapshot) if each[1] in waived}

    def released(self, snapshot: int) -> None:
        """A person published it."""
        self.proven.add(snapshot)
        self.allowed |= self.wrong_rows(snapshot)

    def look(self, *, main_went_back: bool = False) -> str:
        """What is wrong with the branch now; empty when nothing is.

        Args:
            main_went_back: main was rolled back since the last look: the branch may follow it.
        """
        now = self.history()
        verified, before = now.verified, self._last
        if verified is None or verified == self.by_hand:
            return ""
        self._last = verified
        if unproven := self.wrong_rows(verified) - self.allowed:
            return f"verified is at {verified}, whose rows {sorted(unproven)[:3]} nobody proved or allowed"
        if verified not in self.proven:
            return f"verified is at {verified}, and no kept run proves it"
        if before is None or before == verified or main_went_back:
            return ""
        if not now.on_main(verified):
            return f"verified moved from {before} to {verified}, which is off main"
        if now.on_main(before) and any(each.id == verified for each in now.ancestry(before)):
            return f"verified went back from {before} to {verified}"
        return ""

    def moved(self, stood: History) -> str:
        """Right after a run moved the branch, before anything else happens: why it may not have gone there; empty when
        it may, or stands as it did. Main is still what the run decided on, rolled back or not.

        Args:
            stood: the metadata that it decided on.
        """
        now = self.history()
        if now.verified is None or now.verified == stood.verified:
            return ""
        if not now.on_main(now.verified):
            return f"a run moved verified to {now.verified}, which is off main"
        older = any(each.id == now.verified for each in now.ancestry(stood.verified))
        if older and now.on_main(stood.verified or 0) and stood.verified != self.by_hand:
            return f"a run moved verified back from {stood.verified} to {now.verified}"
        return ""

    def behind(self, waived: set[str]) -> str:
        """After a run with nothing beside it: why the branch should be elsewhere; empty when it is right.

        Args:
            waived: kinds that are excused now.
        """
        now = self.history()
        if now.head is None or now.verified == now.head:
            return ""
        with self.engines.registry() as connection:
            newest = next(iter(verifications.newest(connection, self.table, limit=1)), {})
        newest_run = f"{newest.get('verdict')}: {newest.get('note')}"
        bad = {each for each in self.wrong_rows(now.head) if each[1] not in waived}
        if not bad:
            return (
                f"verified is at {now.verified}, and main's head {now.head} has no wrong row; newest run {newest_run}"
            )
        if newest.get("verdict") != "hold" or newest["to_snapshot"] != now.head:
            return (
                f"verified is at {now.verified}, behind {now.head}, and the newest run does not hold it: {newest_run}"
            )
        best = next((each.id for each in now.ancestry(now.head) if each.id in self.proven), None)
        if best is not None and now.verified != best:
            return f"verified is at {now.verified}, and {best} is proven and on main"
        return ""


def _kinds(carrier: str | None, delay: float) -> list[str]:
    found = ["null"] if carrier is None else [] if carrier in ("AA", "UA") else ["text"]
    return found + (["huge"] if delay > HUGE else [])


_history = metadata.history  # the very function: steps are wrapped around its name
