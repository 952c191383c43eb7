"""Whether landed rows of a stream can be moved to quarantine, decided from specs alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakeward.spec.model.stream import StreamSpec


def obstacle(spec: StreamSpec, readers: Sequence[str] = ()) -> str:
    """Why rows of its table cannot be moved to its quarantine, as a clause; empty if they can.

    Args:
        readers: the streams that read its table incrementally.
    """
    sink = spec.sink.iceberg
    if sink is None or sink.mode != "append" or sink.commit != "exact":
        kind = spec.sink.connector if sink is None else f"{spec.sink.connector}, mode {sink.mode}, commit {sink.commit}"
        return f"rows can only be moved from Iceberg tables of mode append and commit exact; its sink is {kind}"
    if spec.quarantine is None:
        return "it has no quarantine table: name one in its file (quarantine: {table: namespace.table})"
    if len(spec.sources) > 1 or spec.source.kafka is None:
        return "its rows must name the records of one Kafka source"
    if spec.lineage == "none":
        return "lineage is none: a row cannot be traced to one record"
    if readers:
        return blocks_readers(str(sink.table), readers)
    return ""


def blocks_readers(table: str, readers: Sequence[str]) -> str:
    """Why rows may not be removed from a table that streams read incrementally, as a clause."""
    return f"a commit that removes rows blocks the streams that read {table}: {', '.join(readers)}"


def obstacle_of(table: str, specs: Iterable[StreamSpec], readers: Sequence[str] | None = None) -> str:
    """The same for a table: the reason of the first stream that lands in it and does not allow it.

    Args:
        specs: streams; those with another sink table are checked as readers.
        readers: the streams that read the table incrementally, if known better than from `specs`.
    """
    every = list(specs)
    if readers is None:
        readers = sorted(
            str(spec.id) for spec in every if table in {str(source.from_table) for source in spec.sources.values()}
        )
    landing = [spec for spec in every if spec.sink.label == table]
    if not landing:
        return "no stream here lands in it"
    return next((f"stream {spec.id}: {why}" for spec in landing if (why := obstacle(spec, readers))), "")
