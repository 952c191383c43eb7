"""What an erase would take: rows of the table, of its streams' quarantine, and what checks kept of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from lakeward.connectors.commit_protocol import position
from lakeward.operations.context import Context
from lakeward.operations.request import Plan
from lakeward.operations.restore import plan as restoring
from lakeward.platform.errors import Refused
from lakeward.platform.text import count, listed
from lakeward.quality.ranges.metadata import BRANCH
from lakeward.quality.results import results_table
from lakeward.registry import generations, streams, verifications
from lakeward.tables.erase import files, where
from lakeward.tables.erase.where import Matching, QuarantinedRows, Results
from lakeward.tables.guard import readers
from lakeward.tables.plan.tags import DAILY

if TYPE_CHECKING:
    from pyiceberg.table import Table

WORD = "erase"


@dataclass(frozen=True)
class Target:
    """One table that rows go from.

    Attributes:
        files: the data files any snapshot of it reaches that hold such rows.
        rows: how many of them readers of main see.
        drop: branches and tags that reach one of those files.
    """

    table: str
    match: Matching
    files: frozenset[str] = frozenset()
    rows: int = 0
    drop: frozenset[str] = frozenset()
    unreadable: int = 0


@dataclass(frozen=True)
class ErasePlan(Plan):
    """What would be done. `data`, `lines` and `text` hold no value of a row.

    Attributes:
        targets: the tables that rows go from, the table itself first.
        names: whether a text names a value of the condition.
    """

    targets: tuple[Target, ...] = field(kw_only=True)
    names: Callable[[str], bool] = field(default=lambda _: False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Scope:
    """What a person asked for.

    Attributes:
        where: the condition as it was written. It names values: it goes to no log and no registry.
        drop_refs: tags and branches that hold such rows go.
        erase_unreadable: rows of the streams' quarantine whose bytes are no text go too; None: say so if there are any.
    """

    table: str
    where: str = field(repr=False)
    drop_refs: bool = False
    erase_unreadable: bool | None = None


def plan(context: Context, scope: Scope) -> ErasePlan:
    """Look at everything, touch nothing. Opens every file of every snapshot whose bounds do not rule it out.

    Raises:
        Refused: something keeps these rows; it is named.
        SpecError: there is no such table, or the condition is none.
        DependencyDown: the registry does not answer.
    """
    table = restoring.load(context, scope.table)
    condition = where.parse(scope.where, table.schema(), scope.table)
    with context.connect() as connection:
        _allowed(connection, scope.table)
        writers = tuple(sorted(restoring.writers(connection, scope.table)))
        aside = _quarantines(connection, table)
        samples = verifications.samples(connection, scope.table)
    matches: dict[str, Matching] = {scope.table: condition}
    for name, of in aside.items():
        matches[name] = QuarantinedRows(condition, of, scope.erase_unreadable is True)
    matches[results_table.TABLE] = Results(condition, scope.table)
    targets = tuple(found for name, match in matches.items() if (found := _target(context, name, match)) is not None)
    _refs(scope, targets)
    unreadable = sum(each.unreadable for each in targets)
    if unreadable and scope.erase_unreadable is None:
        raise Refused(
            f"Whether {count(unreadable, 'row')} in the quarantine of {scope.table} are meant is not known",
            why="they do not have the condition's columns, and their text cannot be searched for its values",
            next="the same command with --unreadable erase, or --unreadable keep after looking at them",
            code="LW-2018",
        )
    main, rest = targets[0], targets[1:]
    put_aside = sum(each.rows for each in rest if each.table in aside)
    dropped = sorted({ref for each in targets for ref in each.drop})
    reached = sum(len(each.files) for each in targets)
    data = {
        "rows": main.rows, "quarantined": put_aside, "samples": samples,
        "results": sum(each.rows for each in rest if each.table == results_table.TABLE), "unreadable": unreadable,
        "files": reached, "refs": dropped, "streams": list(writers), "tables": [each.table for each in targets],
        "columns": list(condition.columns),
    }  # fmt: skip
    text = (
        f"erase {count(main.rows, 'row')} of {scope.table}, {put_aside:,} in quarantine and the stored samples of "
        f"{count(samples, 'check')}, for good"
    )
    return ErasePlan(
        text, tuple(_lines(scope, targets, dropped, writers)), data, _key(scope, data), holds=writers, drains=writers,
        leases=tuple(each.table for each in targets), targets=targets, names=condition.in_text,
    )  # fmt: skip


def _lines(scope: Scope, targets: tuple[Target, ...], dropped: list[str], writers: tuple[str, ...]) -> list[str]:
    found = [
        f"{each.table}: {count(each.rows, 'row')}, in {count(len(each.files), 'file')} of all snapshots"
        for each in targets
    ]
    found.append(f"{scope.table} keeps no snapshot before this one: no restore goes back further")
    if dropped:
        told = " (until the next quality run)" if dropped == [BRANCH] else ""
        found.append(f"goes, with the rows: {listed(dropped)}{told}")
    if writers:
        found.append(f"stopped meanwhile: {listed(list(writers))}")
    found.append(
        "not in reach: the sources, the streams' checkpoints and state, and copies in tables that read this one"
    )
    return found


def _allowed(connection: Connection, name: str) -> None:
    """Raises:
    Refused: a person's hold, or a stream that reads the table as it grows.
    """
    restoring.not_held(connection, name)
    reading = sorted({each.stream for each in readers.registered(connection).get(name, ())})
    if reading:
        raise Refused(
            f"Rows of {name} cannot be erased while {listed(reading)} reads it as it grows",
            why="a commit that takes rows out stops such a reader, and what it read would stay in its own table",
            next=f"take conf/streams/{reading[0]}.yaml away, then: lakeward deploy   and erase from its table too",
            code="LW-2019",
        )


def _quarantines(connection: Connection, table: Table) -> dict[str, set[str]]:
    """Quarantine table -> the streams that landed in the table and put rows aside there."""
    found: dict[str, set[str]] = {}
    writing = restoring.writers(connection, ".".join(table.name()))
    for stream in {*writing, *(each.partition("@")[0] for each in position.streams_of(table.properties))}:
        row = streams.find(connection, stream)
        kept = None if row is None else generations.get(connection, stream, row.generation)
        named = None if kept is None else ((kept.spec.get("quarantine") or {}).get("table"))
        if named:
            found.setdefault(str(named), set()).add(stream)
    return found


def _target(context: Context, name: str, match: Matching) -> Target | None:
    """What one table holds; None where there is no such table."""
    from pyiceberg.exceptions import NoSuchTableError

    from lakeward.operations import sink_position

    try:
        table = sink_position.lake_of(context.runtime).load_table(name)
    except NoSuchTableError:
        return None
    why = files.obstacle(table)
    if why:
        raise Refused(
            f"Rows of {name} cannot be erased from here", why=why, next=f"lakeward tables why {name}", code="LW-2020"
        )
    found = files.held(table, match)
    unreadable = match.unreadable if isinstance(match, QuarantinedRows) else 0
    drop = {
        ref
        for ref, at in table.metadata.refs.items()
        if ref != files.MAIN and files.holding(table, at.snapshot_id, found)
    }
    return Target(
        name, match, frozenset(found), files.live(table, found, match).num_rows, frozenset(drop), unreadable
    )  # fmt: skip


def _refs(scope: Scope, targets: tuple[Target, ...]) -> None:
    """Raises:
    Refused: a tag or a branch of somebody else's holds the rows, and nobody said that it goes.
    """
    named = sorted(
        f"{ref} of {each.table}" for each in targets for ref in each.drop - {BRANCH} if not ref.startswith(DAILY)
    )
    if named and not scope.drop_refs:
        raise Refused(
            f"Rows of {scope.table} cannot be erased: {listed(named)} holds them",
            why="a tag or a branch keeps its snapshot as it is, for whoever made it",
            next="the same command with --drop-refs, when whoever made it agrees",
            code="LW-2021",
        )


def _key(scope: Scope, data: Mapping[str, Any]) -> str:
    """Of what is wanted, not of how many rows that is by now: rows that land meanwhile are meant too."""
    asked = hashlib.sha256(scope.where.encode()).hexdigest()
    return json.dumps([asked, data["refs"], data["tables"], scope.erase_unreadable])
