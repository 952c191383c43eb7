"""Plan of an erase: rows of the table, of its streams' quarantine and late records, and stored check samples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.iceberg import fence, quarantine
from lakeward.operations.context import Context
from lakeward.operations.request import Plan
from lakeward.operations.restore import iceberg_table
from lakeward.operations.restore import plan as restoring
from lakeward.platform.boundary import worded
from lakeward.platform.errors import Refused
from lakeward.platform.runtime import Project
from lakeward.platform.text import count, listed
from lakeward.quality.ranges.metadata import BRANCH
from lakeward.quality.results import results_table
from lakeward.registry import generations, verifications
from lakeward.spec.model import iceberg_properties as properties
from lakeward.spec.sql.names import dotted, name_parts
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.erase import files, settings, where
from lakeward.tables.erase.where import Matching, QuarantinedRows, Results
from lakeward.tables.guard import readers
from lakeward.tables.ownership import erase_obstacle
from lakeward.tables.plan.tags import DAILY

if TYPE_CHECKING:
    from pyiceberg.table import Table

WORD = "erase"


@dataclass(frozen=True)
class Target:
    """One table that rows are erased from.

    Attributes:
        files: data files with such rows, reachable from any snapshot.
        rows: number of such rows on main.
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
    """Plan of an erase. `data`, `lines` and `text` hold no value of a row.

    Attributes:
        targets: the tables that rows are erased from, the table itself first.
        names: whether a text contains a value of the condition.
    """

    targets: tuple[Target, ...] = field(kw_only=True)
    names: Callable[[str], bool] = field(default=lambda _: False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Scope:
    """Scope of an erase as requested.

    Attributes:
        where: the condition as written. It contains values: it is never logged or stored.
        drop_refs: drop tags and branches that hold such rows.
        erase_unreadable: also erase quarantined rows whose bytes are not text; None: refuse if there are any.
    """

    table: str
    where: str = field(repr=False)
    drop_refs: bool = False
    erase_unreadable: bool | None = None


def plan(context: Context, scope: Scope) -> ErasePlan:
    """Make the plan; changes nothing. Opens every file of every snapshot that its bounds do not exclude.

    Raises:
        Refused: something keeps these rows; it is named.
        SpecError: the table does not exist, or the condition is not valid.
        DependencyDown: the registry, the catalog or the store does not answer.
    """
    table = iceberg_table.load(context, scope.table, "erased from")
    condition = where.parse(scope.where, table.schema(), scope.table)
    with context.connect() as connection:
        _check_allowed(connection, scope.table)
        writers = tuple(sorted(restoring.writers(connection, scope.table)))
        quarantines, lates = (_tables_of_streams(connection, table, key) for key in ("quarantine", "late"))
        samples = verifications.samples(connection, scope.table)
    matches: dict[str, Matching] = {scope.table: condition}
    for name, of in (quarantines | lates).items():
        matches[name] = QuarantinedRows(condition, of, scope.erase_unreadable is True)
    matches[results_table.TABLE] = Results(condition, scope.table)
    found = [worded(f"table {name}", partial(_target, context, name, match)) for name, match in matches.items()]
    targets = tuple(target for target in found if target is not None)
    _check_refs(scope, targets)
    unreadable = sum(target.unreadable for target in targets)
    if unreadable and scope.erase_unreadable is None:
        raise Refused(
            f"Cannot match {count(unreadable, 'row')} in quarantine and late records of {scope.table} to the condition",
            why="they lack the condition's columns, and their bytes cannot be searched for its values",
            next="repeat the command with --unreadable erase, or with --unreadable keep after inspecting them",
            code="LW-2018",
        )
    main, rest = targets[0], targets[1:]
    quarantined, late = (sum(target.rows for target in rest if target.table in of) for of in (quarantines, lates))
    dropped = sorted({ref for target in targets for ref in target.drop})
    reached = sum(len(target.files) for target in targets)
    data = {
        "rows": main.rows, "quarantined": quarantined, "late": late, "samples": samples,
        "results": sum(target.rows for target in rest if target.table == results_table.TABLE), "unreadable": unreadable,
        "files": reached, "refs": dropped, "streams": list(writers), "tables": [target.table for target in targets],
        "columns": condition.names,
    }  # fmt: skip
    text = (
        f"erase {count(main.rows, 'row')} of {scope.table}, {quarantined:,} in quarantine, "
        f"{count(late, 'late record')} and the stored samples of "
        f"{count(samples, 'check')}, for good"
    )
    return ErasePlan(
        text, tuple(_lines(scope, targets, dropped, writers)), data, _key(scope, data), holds=writers, drains=writers,
        leases=tuple(target.table for target in targets), targets=targets, names=condition.in_text,
    )  # fmt: skip


def _lines(scope: Scope, targets: tuple[Target, ...], dropped: list[str], writers: tuple[str, ...]) -> list[str]:
    lines = [
        f"{target.table}: {count(target.rows, 'row')}, in {count(len(target.files), 'file')} of all snapshots"
        for target in targets
    ]
    lines.append(f"all earlier snapshots of {scope.table} expire: a restore cannot go back further")
    if dropped:
        until = " (until the next quality run)" if dropped == [BRANCH] else ""
        lines.append(f"dropped with the rows: {listed(dropped)}{until}")
    if writers:
        lines.append(f"stopped meanwhile: {listed(list(writers))}")
    lines.append("not erased: the sources, the streams' checkpoints and state, and copies in tables that read this one")
    return lines


def _check_allowed(connection: Connection, name: str) -> None:
    """Check that nothing forbids an erase.

    Raises:
        Refused: a person holds the table, or a stream reads it incrementally.
    """
    restoring.not_held(connection, name)
    reading = sorted({reader.stream for reader in readers.registered(connection).get(name, ())})
    if reading:
        raise Refused(
            f"Cannot erase rows of {name} while {listed(reading)} reads it incrementally",
            why="a commit that removes rows blocks such a reader, and the rows it has read stay in its own table",
            next=f"remove conf/streams/{reading[0]}.yaml, then: lakeward deploy   and erase from its table too",
            code="LW-2019",
        )


def _tables_of_streams(connection: Connection, table: Table, key: str) -> dict[str, set[str]]:
    """Table of `quarantine:` or `late:` (`key`) -> the streams of the table that use it, or used it before."""
    streams_by_table: dict[str, set[str]] = {}
    writing = restoring.writers(connection, dotted(table.name()))
    for stream in {
        *writing,
        *(position_name.partition("@")[0] for position_name in position.streams_of(table.properties)),
    }:
        for named in generations.tables_of(connection, stream, key):
            streams_by_table.setdefault(named, set()).add(stream)
    return streams_by_table


def shared(context: Context, table: Table) -> str:
    """Why another table may have files of this one, as a clause; empty if none has."""
    return erase_obstacle(MaintenanceContext(context.runtime, Project(Path())), table)


def _target(context: Context, name: str, match: Matching) -> Target | None:
    """What one table holds; None if the table does not exist."""
    from pyiceberg.exceptions import NoSuchTableError

    from lakeward.operations import sink_position

    try:
        table = sink_position.lake_of(context.runtime).load_table(name_parts(name))
    except NoSuchTableError:
        return None
    if isinstance(match, QuarantinedRows) and quarantine.STREAM not in table.schema().column_names:
        return None  # another table has the name now
    properties.check(name, table.properties, "erase rows of")
    why = files.obstacle(table) or shared(context, table)
    files_held = set() if why else files.held(table, match)
    why = why or files.unwritable(table, files_held)
    if why:
        raise Refused(f"Cannot erase rows of {name}", why=why, next=settings.way_out(table, why), code="LW-2020")
    unreadable = match.unreadable if isinstance(match, QuarantinedRows) else 0
    drop = {
        ref
        for ref, at in table.metadata.refs.items()
        if ref not in (files.MAIN, *fence.tags_of(table)) and files.holding(table, at.snapshot_id, files_held)
    }
    return Target(
        name, match, frozenset(files_held), files.live(table, files_held, match).num_rows, frozenset(drop), unreadable
    )  # fmt: skip


def _check_refs(scope: Scope, targets: tuple[Target, ...]) -> None:
    """Check that tags and branches that hold the rows may be dropped.

    Raises:
        Refused: a tag or branch that Lakeward did not make holds the rows, and `drop_refs` is false.
    """
    named = sorted(
        f"{ref} of {target.table}" for target in targets for ref in target.drop - {BRANCH} if not ref.startswith(DAILY)
    )
    if named and not scope.drop_refs:
        raise Refused(
            f"Cannot erase rows of {scope.table}: {listed(named)} holds them",
            why="a tag or branch keeps its snapshot unchanged",
            next="repeat the command with --drop-refs if the owner of the tag or branch agrees",
            code="LW-2021",
        )


def _key(scope: Scope, data: Mapping[str, Any]) -> str:
    """Key of the plan: the request without row counts, because rows that land meanwhile are erased too."""
    condition = hashlib.sha256(scope.where.encode()).hexdigest()
    return json.dumps([condition, data["refs"], data["tables"], scope.erase_unreadable])
