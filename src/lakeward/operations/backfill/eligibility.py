"""Which ranges can be landed on their own, under what name, and in which steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.quarantine import BACKFILL
from lakeward.connectors.kafka.position import Offsets
from lakeward.platform.errors import Refused
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.windows import NoWindow, Window, window_of


def suited(spec: StreamSpec, into: str | None, *, files: bool = False) -> None:
    """Refuse what a spec alone tells.

    Args:
        into: another table than the stream's.
        files: it is files that are to land.

    Raises:
        Refused: names what stands in the way.
    """
    why, next_ = _obstacle(spec, into, files=files)
    if why:
        raise Refused(
            f"Stream {spec.id} cannot be backfilled{f' into {into}' if into else ''}",
            why=why,
            next=next_ or f"lakeward streams reset {spec.id} --to TIME   reads the stream itself again",
            code="LW-2002",
        )


def overwritable(spec: StreamSpec, readers: Sequence[str] = ()) -> None:
    """Refuse what a spec alone tells of putting rows in the place of those that came of the same records.

    Args:
        readers: the streams that read its table as it grows.

    Raises:
        Refused: names what stands in the way.
    """
    why = _unwritable(spec, readers)
    if why:
        raise Refused(
            f"Rows of stream {spec.id} cannot be overwritten",
            why=why,
            next=f"lakeward streams backfill {spec.id} --from TIME --to TIME --into NAMESPACE.TABLE",
            code="LW-2003",
        )


def _unwritable(spec: StreamSpec, readers: Sequence[str]) -> str:
    sink = spec.sink.iceberg
    if sink is None or sink.mode != "append":
        mode = spec.sink.connector if sink is None else f"{spec.sink.connector}, mode {sink.mode}"
        return f"--overwrite is for Iceberg tables of mode append; its sink is {mode}"
    if sink.commit != "exact":
        return f"commit {sink.commit} keeps no position: what the stream has landed is not known"
    if len(spec.sources) > 1 or spec.source.kafka is None:
        return f"its rows must name the records of one Kafka source; it reads {', '.join(map(str, spec.sources))}" + (
            "" if len(spec.sources) > 1 else f" ({spec.source.connector})"
        )
    if readers:
        return f"a commit that takes rows out blocks the streams that read {sink.table}: {', '.join(readers)}"
    return ""


def repairable(spec: StreamSpec, readers: Sequence[str] = ()) -> Window:
    """The window of a stream whose windows can be computed again; else refuse what a spec alone tells.

    Args:
        readers: the streams that read its table as it grows.

    Raises:
        Refused: names what stands in the way.
    """
    try:
        return _repairable(spec, readers)
    except NoWindow as error:
        raise Refused(
            f"Windows of stream {spec.id} cannot be repaired",
            why=str(error),
            next=f"lakeward streams reset {spec.id} --to TIME   reads the stream itself again",
            code="LW-2005",
        ) from None


def _repairable(spec: StreamSpec, readers: Sequence[str]) -> Window:
    sink = spec.sink.iceberg
    if sink is None or sink.mode == "complete" or sink.commit != "exact":
        mode = spec.sink.connector if sink is None else f"mode {sink.mode}, commit {sink.commit}"
        raise NoWindow(f"windows are replaced in Iceberg tables of mode append and upsert; its sink is {mode}")
    if len(spec.sources) > 1 or spec.source.kafka is None:
        raise NoWindow("windows are computed again from one Kafka source, not yet from others")
    if spec.source.deduplicate is not None:
        raise NoWindow("it drops duplicates by what it has seen before, which is not known for a range")
    if spec.rules:
        raise NoWindow("it has rules: a window that breaks one is in quarantine, and is not yet replaced there")
    if spec.transform.sql is None:
        raise NoWindow("its transform is Python: which window a row is of cannot be seen")
    if readers:
        raise NoWindow(f"a commit that takes rows out blocks the streams that read {sink.table}: {', '.join(readers)}")
    return window_of(str(spec.transform.sql))


def _obstacle(spec: StreamSpec, into: str | None, *, files: bool) -> tuple[str, str]:
    sink = spec.sink.iceberg
    elsewhere = f"lakeward streams backfill {spec.id} --from TIME --to TIME --into NAMESPACE.TABLE"
    if sink is None:
        return f"its sink is {spec.sink.connector}; backfills go into Iceberg tables, not yet into others", ""
    if len(spec.sources) > 1:
        return "it has several sources; backfills are done for streams of one, not yet for others", ""
    if files and spec.source.kafka is None and spec.source.files is None:
        return (
            f"its source is {spec.source.connector}; files can stand for topics and for files, not yet for others",
            "",
        )
    if files and into is None and sink.mode == "append":
        return "its table is only added to: rows of these files that are there would land a second time", (
            f"lakeward streams backfill {spec.id} --from-files PATTERN --into NAMESPACE.TABLE"
        )
    if not files and spec.source.kafka is None:
        return f"its source is {spec.source.connector}; backfills are done for Kafka, not yet for others", ""
    if sink.mode == "complete":
        return "mode complete replaces all rows with every batch", ""
    if into is not None:
        taken = (str(sink.table), str(spec.quarantine.table) if spec.quarantine else None)
        return (f"{into} is the stream's own; leave out --into", "") if into in taken else ("", "")
    if sink.mode == "append":
        return "its table is only added to: rows that are there would land a second time", elsewhere
    if sink.order_by is None:
        return "mode upsert without order_by: nothing says whether the row in the table is newer", elsewhere
    if sink.delete_when is not None:
        return "delete_when forgets a key that is deleted: an older row would bring it back", elsewhere
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
    """The name of a backfill, `<stream>@backfill-<n>`, and its position where an earlier run of it left one.

    Two runs are the same backfill when they begin at the same offsets by the same generation: the later goes on.

    Args:
        positions: of the table, by name.
        begin: source name -> where it begins.
        alone: the table is the backfill's own: nothing but this one may be in it.
        rows: whether it has any.
        used: names of earlier ones whose rows are in it and whose positions are not: none of them is given again, for
            rows without their position look like ones that nobody counted.

    Raises:
        Refused: something else is in it.
    """
    ours = {name: at for name, at in positions.items() if name.startswith(stream + BACKFILL)}
    same = [name for name, at in ours.items() if dict(at.begin) == dict(begin) and at.generation == generation]
    if alone and (set(positions) - set(same) or (rows and not same)):
        held = ", ".join(f"{name} (generation {at.generation})" for name, at in sorted(positions.items()))
        raise Refused(
            f"{table} has other rows than those of this backfill",
            why=f"it holds: {held or 'rows without a position'}; with those of this range some could be there twice",
            next="name a table that does not exist yet: --into NAMESPACE.TABLE",
            code="LW-2004",
        )
    if same:
        newest = max(same, key=_number)
        return newest, ours[newest]
    return following(stream, BACKFILL, [*ours, *used]), None


def following(stream: str, mark: str, used: Iterable[str]) -> str:
    """The first name `<stream><mark><n>` after all that were used."""
    mine = (name for name in used if name.startswith(stream + mark))
    return f"{stream}{mark}{max(map(_number, mine), default=0) + 1}"


def next_end(at: Offsets, end: Offsets, most: int) -> Offsets | None:
    """Where the next batch ends: about `most` records on, shared between the partitions by what is left in them.

    None when nothing is left. Partitions that are at their end, or beyond it, stay where they are.
    """
    left = {
        (topic, part): max(0, to - at.get(topic, {}).get(part, to))
        for topic, parts in end.items()
        for part, to in parts.items()
    }
    whole = sum(left.values())
    if whole == 0:
        return None
    share = min(1.0, most / whole) if most else 1.0
    found: Offsets = {topic: dict(parts) for topic, parts in at.items()}
    for (topic, part), rest in left.items():
        if rest:
            found[topic][part] += min(rest, max(1, int(rest * share)))
    return found


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0
