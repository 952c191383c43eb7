"""Continuity of an Iceberg source: checks that the commits after a position exist and are readable as a stream. Pure.

Iceberg's source detects a missing commit too, but in the middle of a batch, with a stack trace, and again at every
restart; or it skips missing commits without an error.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from lakeward.connectors.iceberg import missing_table
from lakeward.connectors.iceberg.qualified import procedure
from lakeward.connectors.iceberg.source.history import Commit, History
from lakeward.connectors.iceberg.source.position import Offset
from lakeward.platform.errors import Blocked, SpecError
from lakeward.platform.text import word
from lakeward.spec.model.table_source import IcebergSource, moment
from lakeward.spec.sql.statements import argument

SKIPS = {"overwrite": "overwrites", "delete": "deletes"}
"""An operation that changes rows -> the value of `skip:` that skips it."""


def check(stream: str, source: str, at: Offset, history: History, skip: Collection[str]) -> None:
    """Compare a position with the remaining commits.

    Raises:
        Blocked: unread commits are missing, or one of them changes rows.
    """
    after = history.after(at)
    if after is None or (at.snapshot is None and not history.complete):
        raise _missing_commits(stream, source, at, history)
    for commit in after:
        word = SKIPS.get(commit.operation)
        if word is not None and word not in skip:
            raise _rewritten(stream, source, history.table, commit, word)


def missing(stream: str, source: str, table: str, newest: str | None, catalog: str) -> Blocked:
    """The error for a missing table that was read before.

    Args:
        newest: the newest metadata file that its folder has.
        catalog: the name of the lake's catalog.
    """
    back = f"restore or rename the table, then: lakeward streams start {stream}"
    if newest is not None:
        back = missing_table.register(table, newest, stream, catalog)
    return Blocked(
        f"Source {source} of stream {stream} cannot be read: table {table} does not exist",
        why=f"{table} was read before; it was dropped or renamed",
        next=f"{back}; or {_new_id(stream)}",
        reason="source-missing",
        code="LW-3094",
    )


def first(stream: str, source: str, spec: IcebergSource, history: History) -> Offset:
    """Where a stream without a position begins.

    Raises:
        SpecError: the table's history does not have the beginning that the spec names.
    """
    if spec.starting_snapshot is not None:
        if history.at(spec.starting_snapshot) is None:
            raise _no_beginning(stream, source, history, f"snapshot {spec.starting_snapshot} is not on its main branch")
        return Offset(spec.starting_snapshot)
    if not history.main:
        return Offset(None)
    if spec.starting == "latest":
        return _end(history)
    if spec.starting_timestamp is not None:
        since = moment(spec.starting_timestamp)
        newer = [commit for commit in history.main if commit.at >= since]
        if len(newer) == len(history.main) and not history.complete:
            raise _no_beginning(stream, source, history, f"commits since {spec.starting_timestamp} were expired")
        return Offset(newer[-1].snapshot) if newer else _end(history)
    if not history.complete:
        rows = "an unknown number of rows" if history.before is None else f"{history.before:,} rows"
        raise _no_beginning(stream, source, history, f"{rows} committed before that would never be read")
    return Offset(history.main[-1].snapshot)


def _end(history: History) -> Offset:
    return Offset(history.main[0].snapshot, history.main[0].files)


def _no_beginning(stream: str, source: str, history: History, why: str) -> SpecError:
    oldest = history.main[-1] if history.main else None
    extent = "the table has no commits" if oldest is None else f"the table's history begins at {_when(oldest)}"
    choice = "" if oldest is None else f"starting_snapshot: {oldest.snapshot} (skips all rows before it), or "
    return SpecError(
        f"Source {source} of stream {stream} cannot begin at its start in {history.table}",
        why=f"{extent}; {why}",
        next=f"set {choice}starting: latest in conf/streams/{stream}.yaml, then: lakeward deploy",
        code="LW-3095",
    )


def _missing_commits(stream: str, source: str, at: Offset, history: History) -> Blocked:
    table, place = history.table, _place(at)
    off_main = None if at.snapshot is None else history.others.get(at.snapshot)
    # A replaced table keeps its old commits off main, and its new history begins after them.
    replaced = history.complete and (not history.main or off_main is None or history.main[-1].at > off_main)
    if off_main is not None and not replaced:
        return Blocked(
            f"Table {table} was rolled back to before the position of stream {stream}",
            why=f"source {source} is {place}, which is no longer on main: rows that landed from it may be missing in "
            f"the table; main's newest is {_when(history.main[0])}",
            next=f"{_forward(stream, at, off_main, history)}{_new_id(stream)}",
            reason="source-rolled-back",
            code="LW-3098",
        )
    if replaced:
        return Blocked(
            f"Table {table}, which stream {stream} reads, was replaced",
            why=f"source {source} is {place}; main has a new history"
            + (f" from {_when(history.main[-1])}" if history.main else " without commits"),
            next=f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            reason="source-replaced",
            code="LW-3099",
        )
    oldest = history.main[-1]
    most = "" if history.before is None else f"; the table had {history.before:,} rows then, read or unread"
    return Blocked(
        f"Table {table} no longer has commits that stream {stream} has not read",
        why=f"source {source} is {place}; expiry removed every commit from there up to {_when(oldest)}, including its "
        f"parent {oldest.parent}{most}",
        next=f"give the stream a new id and a new table (conf/streams/{stream}.yaml) with starting_snapshot: "
        f"{oldest.snapshot}, then: lakeward deploy   lands the remaining rows",
        reason="source-expired",
        code="LW-3096",
    )


def _new_id(stream: str) -> str:
    return f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy"


def _forward(stream: str, at: Offset, committed: datetime, history: History) -> str:
    """The way back to the position; empty if the table has commits since then, which would be lost."""
    if at.snapshot is None or history.main[0].at > committed:
        return ""
    set_back = procedure("set_current_snapshot", history.table, history.catalog)
    call = word(f"{set_back}({argument(history.table)}, {at.snapshot})")
    return f"lakeward sql --write {call}   restores its rows; then: lakeward streams start {stream}; or "


def _rewritten(stream: str, source: str, table: str, commit: Commit, word: str) -> Blocked:
    what = f"it removed {commit.removed:,} rows and added {commit.rows:,}"
    return Blocked(
        f"Stream {stream} cannot read a commit of {table} that changes rows",
        why=f"{_when(commit)} is an {commit.operation}: {what}" if commit.operation == "overwrite"
        else f"{_when(commit)} is a {commit.operation}: {what}",
        next=f"set skip: [{word}] at source {source} in conf/streams/{stream}.yaml to skip it (removed rows stay in "
        f"the sink{', the rows it added do not land' if word == 'overwrites' else ''}), then: "
        f"lakeward deploy; lakeward streams upgrade {stream} --wait",
        reason="source-rewritten",
     code="LW-3097")  # fmt: skip


def _place(at: Offset) -> str:
    if at.snapshot is None:
        return "at the table's beginning"
    return f"at snapshot {at.snapshot}" + (f", file {at.files}" if at.files else "")


def _when(commit: Commit) -> str:
    return f"snapshot {commit.snapshot} of {commit.at:%Y-%m-%dT%H:%M:%SZ}"
