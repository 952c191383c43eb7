"""Which ranges can be landed on their own, under what name, and in which steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.connectors.exact.position import Position
from lakeward.connectors.kafka.position import Offsets
from lakeward.errors import Refused
from lakeward.spec.stream import StreamSpec

_MARK = "@backfill-"


def suited(spec: StreamSpec, into: str | None) -> None:
    """Refuse what a spec alone tells.

    Raises:
        Refused: names what stands in the way.
    """
    why, next_ = _obstacle(spec, into)
    if why:
        raise Refused(
            f"Stream {spec.id} cannot be backfilled{f' into {into}' if into else ''}",
            why=why,
            next=next_ or f"lakeward streams reset {spec.id} --to TIME   reads the stream itself again",
        )


def _obstacle(spec: StreamSpec, into: str | None) -> tuple[str, str]:
    sink = spec.sink.iceberg
    elsewhere = f"lakeward streams backfill {spec.id} --from TIME --to TIME --into NAMESPACE.TABLE"
    if sink is None:
        return f"its sink is {spec.sink.connector}; backfills go into Iceberg tables, not yet into others", ""
    if len(spec.sources) > 1:
        return "it has several sources; backfills are done for streams of one, not yet for others", ""
    if spec.source.kafka is None:
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
) -> tuple[str, Position | None]:
    """The name of a backfill, `<stream>@backfill-<n>`, and its position where an earlier run of it left one.

    Two runs are the same backfill when they begin at the same offsets by the same generation: the later goes on.

    Args:
        positions: of the table, by name.
        begin: source name -> where it begins.
        alone: the table is the backfill's own: nothing but this one may be in it.
        rows: whether it has any.

    Raises:
        Refused: something else is in it.
    """
    ours = {name: at for name, at in positions.items() if name.startswith(stream + _MARK)}
    same = [name for name, at in ours.items() if dict(at.begin) == dict(begin) and at.generation == generation]
    if alone and (set(positions) - set(same) or (rows and not same)):
        held = ", ".join(f"{name} (generation {at.generation})" for name, at in sorted(positions.items()))
        raise Refused(
            f"{table} has other rows than those of this backfill",
            why=f"it holds: {held or 'rows without a position'}; with those of this range some could be there twice",
            next="name a table that does not exist yet: --into NAMESPACE.TABLE",
        )
    if same:
        newest = max(same, key=_number)
        return newest, ours[newest]
    return f"{stream}{_MARK}{max(map(_number, ours), default=0) + 1}", None


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
    digits = name.rpartition(_MARK)[2]
    return int(digits) if digits.isdigit() else 0
