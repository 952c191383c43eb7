"""Plan of a rebuild. Making it changes nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.position import NO_DATA, Position
from lakeward.connectors.iceberg import paths_only, pyiceberg_table, rename
from lakeward.connectors.iceberg.catalogs.routed import own
from lakeward.connectors.iceberg.quarantine import BACKFILL
from lakeward.operations import reset_target as target
from lakeward.operations import sink_position
from lakeward.operations.context import Context
from lakeward.operations.rebuild import names
from lakeward.operations.rebuild.missing_rows import MissingRows, missing_rows, places
from lakeward.operations.rebuild.names import HandOver
from lakeward.operations.rebuild.obstacles import alone, notes, refused, suited
from lakeward.operations.request import Plan
from lakeward.operations.stream import spec_of
from lakeward.operations.upgrade import continues
from lakeward.platform.errors import DependencyDown
from lakeward.platform.text import count, word
from lakeward.registry import generations, streams
from lakeward.registry.generations import Generation
from lakeward.spec.sql.catalogs import prefix_in
from lakeward.spec.sql.names import dotted, name_parts
from lakeward.spec.sql.statements import call_name

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from lakeward.spec.model.stream import StreamSpec


@dataclass(frozen=True)
class Options:
    """Options of a rebuild.

    Attributes:
        start: `earliest`, a time or a file of offsets.
        into: the table to fill; None: `<table>_rebuild_<n>`.
        accept_lost: accepted number of rows (or records) of the old table that the new one lacks.
    """

    start: str = "earliest"
    into: str | None = None
    accept_lost: int = 0


@dataclass(frozen=True)
class RebuildPlan(Plan):
    """Plan of a rebuild; made by `planned`.

    Attributes:
        running: the running generation.
        target: the generation of the new rows.
        source: the source's name.
        fill: the name of the fill's position.
        table, made, before: the stream's table, the new one, and the old one's later name.
        start, end: canonical offsets: from (inclusive) and where the stream is now (exclusive).
        at: position of an earlier run's fill; None for a new one.
        swapped: hand-over of an earlier run that was killed after the swap; then only the last steps remain.
    """

    stream: str = field(kw_only=True)
    running: Generation = field(kw_only=True, repr=False)
    target: Generation = field(kw_only=True, repr=False)
    source: str = field(kw_only=True)
    table: str = field(kw_only=True)
    made: str = field(kw_only=True)
    before: str = field(kw_only=True)
    number: int = field(kw_only=True)
    fill: str = field(kw_only=True)
    start: str = field(kw_only=True)
    end: str = field(kw_only=True)
    at: str | None = field(default=None, kw_only=True)
    missing_rows: MissingRows = field(default_factory=lambda: MissingRows(0, rows=True), kw_only=True)
    swapped: HandOver | None = field(default=None, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def spec(self) -> StreamSpec:
        """Spec of the generation of the new rows."""
        return spec_of(self.target)

    @property
    def records(self) -> int:
        """Records to read, by offsets."""
        return between(self.at or self.start, self.end)


def planned(**facts: Any) -> RebuildPlan:
    """Complete a plan with its sentence and its JSON values."""
    plan = RebuildPlan("", **facts)
    if plan.swapped is not None:
        text = f"finish rebuild {plan.number} of {plan.table}: the tables are swapped, {plan.before} is the old one"
    else:
        goes_on = f", continued from {plan.at}" if plan.at else ""
        text = (
            f"read about {count(plan.records, 'record')} from {plan.start} into {plan.made}{goes_on} by generation "
            f"{plan.target.generation}, then swap: {plan.table} becomes {plan.before}, {plan.made} becomes {plan.table}"
        )
    missing = plan.missing_rows
    missing_lines = [f"not in the new table: {missing.words}", *missing.lines] if missing.number else []
    data = {
        "generation": plan.target.generation,
        "table": plan.table,
        "into": plan.made,
        "before": plan.before,
        "position": plan.fill,
        "from": plan.start,
        "to": plan.end,
        "records": plan.records,
        "lost": missing.number,
        "lost_unit": "rows" if missing.rows else "records",
        "lost_ranges": list(missing.lines),
        "notes": list(plan.notes),
    }
    stream = (plan.stream,)
    drains = stream if plan.swapped is None else None
    return replace(plan, text=text, lines=(*missing_lines, *plan.notes), data=data, holds=stream, drains=drains)


def plan(context: Context, stream: str, options: Options) -> RebuildPlan:
    """Make the plan.

    Raises:
        SpecError: the stream does not exist, or `start` is not valid.
        Refused: a rebuild is not possible now; names the obstacle.
        DependencyDown: the catalog, the broker or the registry does not answer.
    """
    from sqlalchemy.exc import OperationalError

    running, chosen = _generations(context, stream)
    spec = spec_of(chosen)
    suited(spec)
    try:
        lake = sink_position.lake_of(context.runtime)
        rename.swappable(own(lake, name_parts(spec.sink.label)), stream)
        return _of_tables(context, stream, options, running, chosen, spec, lake)
    except OperationalError as error:
        raise DependencyDown(
            "The catalog does not answer",
            why=str(error.orig).strip().splitlines()[0],
            next="lakeward stack status",
            code="LW-2040",
        ) from None


def _of_tables(
    context: Context, stream: str, options: Options, running: Generation, chosen: Generation, spec: StreamSpec,
    lake: Catalog,
) -> RebuildPlan:  # fmt: skip
    table, source = str(spec.sink.label), str(next(iter(spec.sources)))
    old = loaded(lake, stream, table)
    mark = old.properties.get(names.marker(stream))
    if mark is not None:
        over = HandOver.model_validate_json(mark)
        return planned(
            stream=stream, running=running, target=chosen, source=over.source, table=table, made=table,
            before=over.before, number=over.number, fill=over.fill, start=over.end, end=over.end, at=over.end,
            swapped=over,
        )  # fmt: skip
    live = position_of(old, stream)
    alone(context, stream, table, old)
    tables = [dotted(identifier) for identifier in lake.list_tables(name_parts(table)[:-1])]
    number = names.next_number(table, old.location(), tables)
    made, at, fill = options.into or names.made(table, number), None, names.filling(stream, number)
    _own_folder(stream, made, old)
    fills = [name for name in sorted(tables) if name_parts(name)[-1].startswith(f"{name_parts(table)[-1]}_rebuild_")]
    for candidate in [options.into] if options.into else fills:
        known = _filled(lake, stream, candidate, named=options.into is not None)
        if known is not None:
            made, (fill, at) = candidate, known
            number = names.number_of(stream, [fill]) or number
    end = live.end[source]
    start = at.begin[source] if at is not None else target.target_offsets(context, spec, options.start, {})[source]
    if (
        at is not None
        and options.start != "earliest"
        and target.target_offsets(context, spec, options.start, {})[source] != start
    ):
        raise refused(
            stream,
            f"{made} is already being filled from {start}, and --from differs",
            f"{_drop(context, made)}   to begin again; or omit --from",
        )
    if set(places(end)) - set(places(start)):
        raise refused(
            stream,
            f"partitions were added after {made} was begun from {start}; the stream is at {end}",
            f"{_drop(context, made)}   then repeat the command; it begins again with them",
        )
    _same_spec(context, stream, made, at, chosen)
    filled = at.end[source] if at is not None else None
    if between(start, end) == 0:
        raise refused(
            stream, f"the range from {start} to the stream's position {end} is empty", "give an earlier --from"
        )
    return planned(
        stream=stream, running=running, target=chosen, source=source, table=table, made=made,
        before=names.before(table, number), number=number, fill=fill, start=start, end=end, at=filled,
        missing_rows=missing_rows(old, live.begin.get(source, NO_DATA), start, end),
        notes=tuple(notes(stream, old, live, spec)),
    )  # fmt: skip


def _drop(context: Context, table: str) -> str:
    """The command that drops a table which a rebuild was filling."""
    return f"lakeward sql --write {word(f'DROP TABLE {call_name(table, prefix_in(context.runtime.lake, table))}')}"


def between(start: str, end: str) -> int:
    """Number of records between two positions, by offsets."""
    low = places(start)
    return sum(max(0, to - low.get(part, to)) for part, to in places(end).items())


def loaded(lake: Catalog, stream: str, table: str) -> Table:
    """Load the stream's table.

    Raises:
        Refused: the table does not exist.
    """
    try:
        return paths_only.readable(lake, name_parts(table))
    except NoSuchTableError:
        raise refused(
            stream,
            f"table {table} does not exist, and the stream's position was in it",
            f"lakeward streams status {stream}   shows whether anything has landed, and what brings the table back",
        ) from None


def position_of(table: Table, stream: str) -> Position:
    """The stream's position in its table.

    Raises:
        Refused: no batch has landed.
    """
    name = dotted(table.name())
    raw = table.properties.get(position.key(stream))
    if raw is None:
        raise refused(
            stream, f"{name} has no position of the stream: no batch has landed", f"lakeward streams start {stream}"
        )
    at = position.parse(raw, stream, name)
    if NO_DATA in at.end.values():
        raise refused(stream, f"the stream has landed no records in {name}", f"lakeward streams status {stream}")
    return at


def _generations(context: Context, stream: str) -> tuple[Generation, Generation]:
    """The running generation and the newest deployed one."""
    with context.connect() as connection:
        row = streams.get(connection, stream)
        running = generations.named(connection, stream, row.generation)
        newest = running
        if row.pending_generation is not None:
            newest = generations.named(connection, stream, row.pending_generation)
    if row.removed_at is not None:
        raise refused(stream, "it is retired: its file was removed and the removal deployed", "lakeward deploy")
    if row.proving is not None:
        raise refused(
            stream,
            f"generation {row.proving['generation']} is being proven until {row.proving['until']}",
            f"wait, or roll back: lakeward streams rollback {stream}",
        )
    if newest is not running:
        continues(row, spec_of(running), spec_of(newest), newest)
    return running, newest


def _own_folder(stream: str, made: str, old: Table) -> None:
    """Check that the new table gets its own folder: a renamed table keeps the folder of its old name.

    Raises:
        Refused: the new table would use the folder of the stream's table.
    """
    if old.location().rstrip("/").endswith("/" + "/".join(name_parts(made))):
        raise refused(stream, f"{dotted(old.name())} uses the folder of {made}", "name another table: --into TABLE")


def _filled(lake: Catalog, stream: str, made: str, *, named: bool) -> tuple[str, Position] | None:
    """Name and position of the fill in a table; None if the table does not exist.

    Args:
        named: a person named the table; then a backfill in it counts as a fill too.

    Raises:
        Refused: the named table holds something else.
    """
    try:
        table = lake.load_table(name_parts(made))
    except NoSuchTableError:
        return None
    there = pyiceberg_table.positions(table)
    number = names.number_of(stream, there)
    fills = [names.filling(stream, number)] if number is not None else []
    if named and not fills:
        fills = [position_name for position_name in there if position_name.startswith(f"{stream}{BACKFILL}")]
    if len(fills) == 1 and set(there) <= {stream, *fills}:
        return fills[0], there[fills[0]]
    if not named or (not there and table.current_snapshot() is None):
        return None
    raise refused(
        stream,
        f"{made} exists and holds {', '.join(sorted(there)) or 'rows without a position'}, not one fill of the stream",
        "name a table that does not exist: --into TABLE",
    )


def _same_spec(context: Context, stream: str, made: str, at: Position | None, chosen: Generation) -> None:
    """Check that an earlier run filled the table with the same spec."""
    if at is None or at.generation == chosen.generation:
        return
    with context.connect() as connection:
        begun = generations.get(connection, stream, at.generation)
    if begun is None or begun.digest != chosen.digest:
        raise refused(
            stream,
            f"{made} was filled by generation {at.generation}, but the newest generation is {chosen.generation}",
            f"{_drop(context, made)}   then repeat the command",
        )


def marker_json(over: HandOver) -> str:
    """The hand-over as the value of a table property."""
    return json.dumps(over.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
