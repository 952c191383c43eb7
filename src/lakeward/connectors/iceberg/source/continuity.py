"""Does a table still have, and in a form a stream can read, what comes after a position? Pure.

Iceberg's source finds out too, but in the middle of a batch, with a stack trace, and again at every restart; or it
passes over what is gone and says nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from lakeward.connectors.iceberg.source.history import Commit, History
from lakeward.connectors.iceberg.source.position import Offset
from lakeward.platform.errors import Blocked, SpecError
from lakeward.spec.model.table_source import IcebergSource, moment

SKIPS = {"overwrite": "overwrites", "delete": "deletes"}
"""An operation that changes rows -> the word of `skip:` that passes over it."""


def check(stream: str, source: str, at: Offset, history: History, skip: Collection[str]) -> None:
    """Compare a position with the commits that are left.

    Raises:
        Blocked: commits that were never read are gone, or one changes rows.
    """
    after = history.after(at)
    if after is None or (at.snapshot is None and not history.complete):
        raise _gone(stream, source, at, history)
    for each in after:
        word = SKIPS.get(each.operation)
        if word is not None and word not in skip:
            raise _rewritten(stream, source, history.table, each, word)


def missing(stream: str, source: str, table: str) -> Blocked:
    """The error for a table that was read before and is not there."""
    return Blocked(
        f"The table that source {source} of stream {stream} reads is gone",
        why=f"there is no {table}: it was dropped or renamed",
        next=f"give it its name back, or give the stream a new id and a new table (conf/streams/{stream}.yaml), "
        "then: lakeward deploy",
        reason="source-missing",
        code="LW-3094",
    )


def first(stream: str, source: str, spec: IcebergSource, history: History) -> Offset:
    """Where a stream without a position begins.

    Raises:
        SpecError: what the spec names as the beginning is not in the table's history.
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
        young = [each for each in history.main if each.at >= since]
        if len(young) == len(history.main) and not history.complete:
            raise _no_beginning(stream, source, history, f"commits since {spec.starting_timestamp} were expired")
        return Offset(young[-1].snapshot) if young else _end(history)
    if not history.complete:
        rows = "how many rows, nobody says" if history.before is None else f"{history.before:,} rows"
        raise _no_beginning(stream, source, history, f"what was committed before it would never come ({rows})")
    return Offset(history.main[-1].snapshot)


def _end(history: History) -> Offset:
    return Offset(history.main[0].snapshot, history.main[0].files)


def _no_beginning(stream: str, source: str, history: History, why: str) -> SpecError:
    oldest = history.main[-1] if history.main else None
    left = "it has no commits" if oldest is None else f"its history begins at {_when(oldest)}"
    choice = "" if oldest is None else f"starting_snapshot: {oldest.snapshot} (gives up what was before), or "
    return SpecError(
        f"Source {source} of stream {stream} cannot begin where it should in {history.table}",
        why=f"{left}; {why}",
        next=f"say {choice}starting: latest in conf/streams/{stream}.yaml, then: lakeward deploy",
        code="LW-3095",
    )


def _gone(stream: str, source: str, at: Offset, history: History) -> Blocked:
    table, place = history.table, _place(at)
    stood = None if at.snapshot is None else history.others.get(at.snapshot)
    # A table that is replaced keeps its old commits off main, and begins anew behind them.
    anew = history.complete and (not history.main or stood is None or history.main[-1].at > stood)
    if stood is not None and not anew:
        return Blocked(
            f"Table {table} was rolled back behind what stream {stream} has read of it",
            why=f"source {source} is {place}, which is not on main any more: rows that were landed from it may be gone "
            f"there; main's newest is {_when(history.main[0])}",
            next=f"roll it forward again, or give the stream a new id and a new table (conf/streams/{stream}.yaml)",
            reason="source-rolled-back",
            code="LW-3098",
        )
    if anew:
        return Blocked(
            f"Table {table} was replaced under stream {stream}",
            why=f"source {source} is {place}; main begins anew"
            + (f" at {_when(history.main[-1])}" if history.main else " and has no commits"),
            next=f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            reason="source-replaced",
            code="LW-3099",
        )
    oldest = history.main[-1]
    most = "" if history.before is None else f"; {history.before:,} rows stood in the table then, read or not"
    return Blocked(
        f"Table {table} no longer has commits that stream {stream} never read",
        why=f"source {source} is {place}; expiry took every commit from there up to {_when(oldest)}, its parent "
        f"{oldest.parent} included{most}",
        next=f"give the stream a new id and a new table (conf/streams/{stream}.yaml) with starting_snapshot: "
        f"{oldest.snapshot}, then: lakeward deploy   lands what is left",
        reason="source-expired",
        code="LW-3096",
    )


def _rewritten(stream: str, source: str, table: str, commit: Commit, word: str) -> Blocked:
    what = f"it took {commit.removed:,} rows out and put {commit.rows:,} in"
    return Blocked(
        f"A commit of {table} changes rows, and stream {stream} reads rows that are added",
        why=f"{_when(commit)} is an {commit.operation}: {what}" if commit.operation == "overwrite"
        else f"{_when(commit)} is a {commit.operation}: {what}",
        next=f"say skip: [{word}] at source {source} in conf/streams/{stream}.yaml to go on without it (what it took "
        f"out stays in the sink{', what it put in never comes' if word == 'overwrites' else ''}), then: "
        f"lakeward deploy, lakeward streams upgrade {stream}",
        reason="source-rewritten",
     code="LW-3097")  # fmt: skip


def _place(at: Offset) -> str:
    if at.snapshot is None:
        return "at the table's beginning"
    return f"at snapshot {at.snapshot}" + (f", file {at.files}" if at.files else "")


def _when(commit: Commit) -> str:
    return f"snapshot {commit.snapshot} of {commit.at:%Y-%m-%dT%H:%M:%SZ}"
