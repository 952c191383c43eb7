"""Streams that read tables of the lake: what one's spec must be, and what streams that feed each other must be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding


def table_source_findings(spec: StreamSpec) -> Iterator[Finding]:
    """What is wrong with the sources of one stream that are tables."""
    for name, source in spec.sources.items():
        table = source.from_table
        if table is None:
            continue
        at: Path_ = ("sources", name)
        if source.decode is not None:
            message = f"decode belongs to records of bytes; {table} has columns"
            yield Finding((*at, "decode"), message, key=True)
        if table in map(str, spec.tables):
            what = "lands in" if table == str(spec.sink.table) else "puts bad rows into"
            message = f"the stream {what} this table: it would feed itself"
            yield Finding((*at, source.connector, "table"), message, table)
        latest = getattr(source.options, "starting", None) == "latest"
        if latest and spec.trigger.available_now:
            message = "a run lands what is there when it starts, and behind the newest commit there is nothing"
            yield Finding((*at, source.connector, "starting"), f"{message}; say starting_timestamp:", "latest")


Fed = tuple[StreamSpec, str, str]
"""A stream that reads a table, the name of that source, and what is wrong there."""


def feeding(streams: Sequence[StreamSpec]) -> Iterator[Fed]:
    """Sources whose table another stream lands in a way that cannot be read as a stream, or that close a circle."""
    landed: dict[str, list[StreamSpec]] = {}
    for spec in streams:
        if spec.sink.rows_in and spec.sink.table:
            landed.setdefault(str(spec.sink.table), []).append(spec)
    for spec in streams:
        for name, source in spec.sources.items():
            for upstream in landed.get(source.from_table or "", ()):
                if upstream is spec:
                    continue
                why = _unreadable(upstream, source.connector)
                if why is None and _reaches(spec, upstream, landed):
                    why = f"stream {upstream.id} reads, over this stream's table, what this one lands: a circle"
                if why is not None:
                    yield spec, str(name), why


def _unreadable(upstream: StreamSpec, connector: str) -> str | None:
    if upstream.sink.connector != connector:
        return f"stream {upstream.id} makes this table as {upstream.sink.connector}; say {upstream.sink.connector}:"
    if upstream.sink.mode == "append":
        return None
    return (
        f"stream {upstream.id} lands here by mode {upstream.sink.mode}, which changes rows; a stream of a table sees "
        "rows that are added and nothing else. Read what that stream reads, or use the table as a reference"
    )


def _reaches(start: StreamSpec, end: StreamSpec, landed: Mapping[str, Sequence[StreamSpec]]) -> bool:
    """Whether what `start` lands comes to `end`."""
    seen: set[str] = set()
    pending = [end]
    while pending:
        spec = pending.pop()
        if spec is start:
            return True
        if spec.id not in seen:
            seen.add(spec.id)
            pending += [up for source in spec.sources.values() for up in landed.get(source.from_table or "", ())]
    return False


def readers_of(streams: Mapping[str, StreamSpec]) -> dict[str, list[str]]:
    """Stream -> the streams that read the table it lands in, sorted."""
    tables = {str(spec.sink.table): str(name) for name, spec in streams.items() if spec.sink.rows_in}
    found: dict[str, list[str]] = {}
    for name, spec in sorted(streams.items()):
        for source in spec.sources.values():
            upstream = tables.get(source.from_table or "")
            if upstream is not None and upstream != name:
                found.setdefault(upstream, []).append(str(name))
    return found
