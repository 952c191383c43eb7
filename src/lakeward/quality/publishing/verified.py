"""The branch `verified`: the snapshot up to which readers may trust the table.

It moves to exactly the checked snapshot, never to main, and only after a check of the ancestry, because Iceberg moves a
branch anywhere, also backwards. The registry's results are the proof; where branch and results differ, the branch is
repaired. Deciding is pure; `move` acts and decides again on every retry. Its decision is a requirement of the commit:
if main or the branch changed meanwhile, nothing moves (ADR 56).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.connectors.iceberg.refs import set_refs, settable
from lakeward.platform.errors import Transient
from lakeward.platform.text import word
from lakeward.quality.publishing.audit_tags import Tag
from lakeward.quality.ranges.metadata import BRANCH, history_of, load
from lakeward.quality.ranges.snapshot_chain import History, Mark
from lakeward.quality.results.json_values import sentence
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql.connect.session import SparkSession

TRIES = 6
# A writer committed between our read of the metadata and our write: read again and decide again.
_CONFLICTS = ("metadata refresh is required", "CommitFailedException", "Cannot commit", "has been updated by another")


@dataclass(frozen=True)
class Move:
    """A decision about the branch; `to` None leaves it. `why` is a clause for the log; `tag` is created with the
    move."""

    to: int | None
    why: str
    tag: Tag | None = None


def advance(now: History, checked: int) -> Move:
    """Move to the snapshot that just passed, if main still contains it."""
    if not now.on_main(checked):
        return Move(None, f"snapshot {checked} is no longer on main: the next run checks again")
    if now.verified is None:
        return Move(checked, "created")
    if now.verified == checked:
        return Move(None, "already there")
    if not now.on_main(now.verified):
        return Move(checked, f"rebuilt: snapshot {now.verified} is off main")
    if any(snapshot.id == checked for snapshot in now.ancestry(now.verified)):
        return Move(None, f"a newer run moved it to {now.verified}")
    return Move(checked, f"moved from {now.verified}")


def settle(now: History, base: Mark | None) -> Move:
    """Before a run: move the branch to the newest proof on main."""
    if base is None or now.verified == base.snapshot:
        return Move(None, "agrees with the results" if base is not None else "no snapshot is proven yet")
    if base.snapshot not in now.snapshots:
        return Move(None, f"the proven snapshot {base.snapshot} is expired: the branch follows at the next pass")
    if not now.on_main(base.snapshot):
        return Move(None, f"the proven snapshot {base.snapshot} is off main")
    was = "was missing" if now.verified is None else f"was at {now.verified}"
    return Move(base.snapshot, f"repaired: it {was}, the newest results on main prove {base.snapshot}")


def move(
    session: SparkSession, lake: Catalog, table: str, decide: Callable[[History], Move]
) -> tuple[Move, int | None]:
    """Decide on fresh metadata and act; retry when a concurrent commit wins.

    Returns:
        The decision, and the branch's snapshot now.

    Raises:
        Transient: concurrent commits won every time.
    """
    for attempt in range(TRIES):
        loaded = load(lake, table)
        now = history_of(table, loaded)
        decided = decide(now)
        if decided.to is None:
            return decided, now.verified
        try:
            if settable(lake, loaded):
                _commit(lake, loaded, now, decided.to, decided.tag)
            else:
                _by_spark(session, table, decided.to, decided.tag)
        except Exception as error:
            # A catalog and Spark Connect raise different types; only the text identifies a conflict in both.
            if not any(text in f"{type(error).__name__}: {error}" for text in _CONFLICTS):
                raise
            if attempt == TRIES - 1:
                raise Transient(
                    f"Cannot move the branch `{BRANCH}` of {table}",
                    why=f"Concurrent commits won {TRIES} times: {sentence(str(error))}",
                    next=f"lakeward quality run {word(table)}   (results are recorded; it repairs the branch)",
                    code="LW-5009",
                ) from error
            time.sleep(0.2 * 2**attempt)
            continue
        return decided, decided.to
    raise AssertionError("unreachable: the last try raises or returns")


def _commit(lake: Catalog, loaded: Table, now: History, to: int, tag: Tag | None) -> None:
    """Move the branch, on condition that main and the branch are unchanged, and create the tag, if it is new."""
    from pyiceberg.table import update as changes

    make: Any = changes  # pydantic hides these constructors from mypy
    requirements = [
        make.AssertTableUUID(uuid=loaded.metadata.table_uuid),
        make.AssertRefSnapshotId(ref="main", snapshot_id=now.head),
        make.AssertRefSnapshotId(ref=BRANCH, snapshot_id=now.verified),
    ]
    refs = [make.SetSnapshotRefUpdate(ref_name=BRANCH, type="branch", snapshot_id=to)]
    if tag is not None:
        max_age_ms = tag.keep // timedelta(milliseconds=1)
        requirements.append(make.AssertRefSnapshotId(ref=tag.name, snapshot_id=None))
        refs.append(
            make.SetSnapshotRefUpdate(
                ref_name=tag.name, type="tag", snapshot_id=tag.snapshot, max_ref_age_ms=max_age_ms
            )
        )
    set_refs(lake, loaded, requirements, refs)


def _by_spark(session: SparkSession, table: str, to: int, tag: Tag | None) -> None:
    """The same by SQL, without the condition, for tables and catalogs where our commit cannot have one."""
    name = in_lake(session, table)
    if tag is not None:
        at = f"AS OF VERSION {tag.snapshot:d} RETAIN {tag.keep // timedelta(minutes=1)} MINUTES"
        session.sql(f"ALTER TABLE {name} CREATE TAG IF NOT EXISTS {quote(tag.name)} {at}").collect()
    session.sql(f"ALTER TABLE {name} CREATE OR REPLACE BRANCH {quote(BRANCH)} AS OF VERSION {to:d}").collect()
