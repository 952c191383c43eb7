"""Eligibility of backfills: which streams, under which name, in which steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.quarantine import BACKFILL
from lakeward.connectors.kafka.position import Offsets
from lakeward.platform.errors import Refused
from lakeward.platform.text import word
from lakeward.spec.checks.quarantine import blocks_readers
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.windows import NoWindow, Window, window_of


def suited(spec: StreamSpec, into: str | None, *, files: bool = False) -> None:
    """Check that a stream's spec allows a backfill.

    Args:
        into: another table than the stream's.
        files: files are landed instead of records of the source.

    Raises:
        Refused: names the obstacle.
    """
    why, next_ = _obstacle(spec, into, files=files)
    if why:
        raise Refused(
            f"Cannot backfill stream {spec.id}{f' into {into}' if into else ''}",
            why=why,
            next=next_ or f"lakeward streams reset {spec.id} --to earliest --dry-run   reads the stream itself again",
            code="LW-2002",
        )


def overwritable(spec: StreamSpec, readers: Sequence[str] = ()) -> None:
    """Check that a stream's spec allows `--overwrite`: replacing the rows of the same records.

    Args:
        readers: streams that read its table incrementally.

    Raises:
        Refused: names the obstacle.
    """
    why = _unwritable(spec, readers)
    if why:
        raise Refused(
            f"Cannot overwrite rows of stream {spec.id}",
            why=why,
            next=_elsewhere(spec),
            code="LW-2003",
        )


def _unwritable(spec: StreamSpec, readers: Sequence[str]) -> str:
    sink = spec.sink.iceberg
    if sink is None or sink.mode != "append":
        mode = spec.sink.connector if sink is None else f"{spec.sink.connector}, mode {sink.mode}"
        return f"--overwrite is for Iceberg tables of mode append; its sink is {mode}"
    if sink.commit != "exact":
        return f"commit: {sink.commit} keeps no position; the landed range is unknown"
    if len(spec.sources) > 1 or spec.source.kafka is None:
        return f"its rows must carry positions of one Kafka source; it reads {', '.join(map(str, spec.sources))}" + (
            "" if len(spec.sources) > 1 else f" ({spec.source.connector})"
        )
    if readers:
        return blocks_readers(str(sink.table), readers)
    return ""


def repairable(spec: StreamSpec, readers: Sequence[str] = ()) -> Window:
    """The window of a stream whose windows can be recomputed.

    Args:
        readers: streams that read its table incrementally.

    Raises:
        Refused: names the obstacle.
    """
    try:
        return _repairable(spec, readers)
    except NoWindow as error:
        raise Refused(
            f"Cannot repair windows of stream {spec.id}",
            why=str(error),
            next=f"lakeward streams reset {spec.id} --to earliest --dry-run   reads the stream itself again",
            code="LW-2005",
        ) from None


def _repairable(spec: StreamSpec, readers: Sequence[str]) -> Window:
    sink = spec.sink.iceberg
    if sink is None or sink.mode == "complete" or sink.commit != "exact":
        mode = spec.sink.connector if sink is None else f"mode {sink.mode}, commit {sink.commit}"
        raise NoWindow(f"windows are replaced in Iceberg tables of mode append and upsert; its sink is {mode}")
    if len(spec.sources) > 1 or spec.source.kafka is None:
        raise NoWindow("windows can be recomputed from one Kafka source only, so far")
    if spec.source.deduplicate is not None:
        raise NoWindow("it drops duplicates by earlier keys, which are unknown for a range")
    if spec.rules:
        raise NoWindow("it has rules; a window that fails one is in quarantine, where it cannot be replaced yet")
    if spec.transform.sql is None:
        raise NoWindow("its transform is Python; the window of a row cannot be derived from it")
    if readers:
        raise NoWindow(blocks_readers(str(sink.table), readers))
    return window_of(str(spec.transform.sql))


def _elsewhere(spec: StreamSpec) -> str:
    """The step that lands the records in a table of their own; for another sink than Iceberg, that of the stream."""
    if spec.sink.iceberg is None:
        return f"lakeward streams reset {spec.id} --to earliest --dry-run   reads the stream itself again"
    into = word(f"{spec.sink.iceberg.table}_again")
    return f"lakeward streams backfill {spec.id} --from earliest --into {into} --dry-run"


def _obstacle(spec: StreamSpec, into: str | None, *, files: bool) -> tuple[str, str]:
    sink = spec.sink.iceberg
    elsewhere = _elsewhere(spec)
    if sink is None:
        return f"its sink is {spec.sink.connector}; backfills support Iceberg tables only, so far", ""
    if len(spec.sources) > 1:
        return "it has several sources; backfills support streams with one source only, so far", ""
    if files and spec.source.kafka is None and spec.source.files is None:
        return (
            f"its source is {spec.source.connector}; files can replace Kafka and file sources only, so far",
            "",
        )
    if files and into is None and sink.mode == "append":
        return "its sink only appends: rows of these files that are in the table would land a second time", (
            f"the same command with --into {word(f'{sink.table}_again')} --dry-run"
        )
    if not files and spec.source.kafka is None:
        return f"its source is {spec.source.connector}; backfills support Kafka sources only, so far", ""
    if sink.mode == "complete":
        return "mode complete replaces all rows with every batch", ""
    if into is not None:
        taken = map(str, spec.tables)
        return (f"{into} is a table of the stream itself; omit --into", "") if into in taken else ("", "")
    if sink.mode == "append":
        return "its sink only appends: rows that are in the table would land a second time", elsewhere
    if sink.order_by is None:
        return "mode upsert without order_by cannot decide whether the row in the table is newer", elsewhere
    if sink.delete_when is not None:
        return "delete_when keeps no trace of a deleted key: an older row would restore it", elsewhere
    return "", ""


def name_of(
    stream: str,
    generation: int,
    table: str,
    positions: Mapping[str, Position],
    begin: Mapping[str, str],
    *,
    alone: bool,
    rows: bool,
    used: Iterable[str] = (),
) -> tuple[str, Position | None]:
    """The name of a backfill, `<stream>@backfill-<n>`, and its position if an earlier run of it left one.

    Two runs are the same backfill if they begin at the same offsets with the same generation: the later one continues.

    Args:
        positions: of the table, by name.
        begin: source name -> where it begins.
        alone: the table belongs to the backfill: it may hold nothing else.
        rows: whether the table has rows.
        used: names of earlier backfills whose rows are in the table without a position. They are not used again,
            because rows without a position look uncounted.

    Raises:
        Refused: the table holds other rows.
    """
    ours = {name: at for name, at in positions.items() if name.startswith(stream + BACKFILL)}
    same = [name for name, at in ours.items() if dict(at.begin) == dict(begin) and at.generation == generation]
    if alone and (set(positions) - set(same) or (rows and not same)):
        held = ", ".join(f"{name} (generation {at.generation})" for name, at in sorted(positions.items()))
        raise Refused(
            f"Cannot backfill into {table}: it holds other rows",
            why=f"it holds {held or 'rows without a position'}; rows of this range could land twice",
            next="name a table that does not exist yet: --into NAMESPACE.TABLE",
            code="LW-2004",
        )
    if same:
        newest = max(same, key=_number)
        return newest, ours[newest]
    return following(stream, BACKFILL, [*ours, *used]), None


def following(stream: str, mark: str, used: Iterable[str]) -> str:
    """The first name `<stream><mark><n>` after all used names."""
    own = (name for name in used if name.startswith(stream + mark))
    return f"{stream}{mark}{max(map(_number, own), default=0) + 1}"


def next_end(at: Offsets, end: Offsets, most: int) -> Offsets | None:
    """Where the next batch ends: about `most` records further, shared between partitions by their remaining records.

    None if no record remains. Partitions at or beyond their end stay where they are.
    """
    remaining = {
        (topic, part): max(0, to - at.get(topic, {}).get(part, to))
        for topic, parts in end.items()
        for part, to in parts.items()
    }
    whole = sum(remaining.values())
    if whole == 0:
        return None
    share = min(1.0, most / whole) if most else 1.0
    next_: Offsets = {topic: dict(parts) for topic, parts in at.items()}
    for (topic, part), rest in remaining.items():
        if rest:
            next_[topic][part] += min(rest, max(1, int(rest * share)))
    return next_


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0
