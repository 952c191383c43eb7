"""Checks of file, table and socket sources, and of streams that share one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from posixpath import normpath

from lakeward.spec.model.file_paths import elsewhere, folder_of, hadoop, here, local, on_s3
from lakeward.spec.model.sources import FilesSource
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding

_CHOICE = re.compile(r"\{[^{}]*\}")
_BUCKET = re.compile(r"s3a?://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9](/.*)?")


def file_source_findings(spec: StreamSpec) -> Iterator[Finding]:
    """Problems of the file sources of one stream."""
    for name, source in spec.sources.items():
        files, at = source.files, ("sources", name)
        if files is None:
            continue
        if files.format == "json" and (source.decode is None or source.decode.ddl is None):
            message = 'files of json need decode: {json: "name TYPE, .."}: the columns of an object, one a line'
            yield Finding((*at, "decode"), message, missing=source.decode is None)
        if files.format != "json" and source.decode is not None:
            how = "their columns are declared under files: columns:" if files.columns else "a line is one column, value"
            yield Finding((*at, "decode"), f"decode belongs to records of bytes; of files of {files.format} {how}",
                          key=True)  # fmt: skip
        yield from _folder((*at, "files"), files)
        sink = spec.sink.files
        if sink is not None and here(files.path) and _reads(files.path, sink.path):
            message = f"this reads folder {sink.path}, to which the stream writes its batches: it would feed itself"
            yield Finding((*at, "files", "path"), message, files.path)


def _reads(source: str, folder: str) -> bool:
    """Whether a path or pattern reads files in `folder`, or in folders below it; they have any names."""
    parts = zip(normpath(local(source)).split("/"), normpath(folder).split("/"), strict=False)
    return all(fnmatchcase(name, _CHOICE.sub("*", part)) for part, name in parts)


def _folder(at: Path_, files: FilesSource) -> Iterator[Finding]:
    if elsewhere(files.path):
        return  # reported by `not_supported`
    folder = folder_of(files.path)
    if on_s3(files.path):
        yield from _on_s3(at, files, folder)
    elif not folder:
        yield Finding((*at, "path"), "this reads the whole machine; name a folder", files.path)
    elif not Path(folder).is_dir():
        message = f"folder {folder} does not exist on this machine; the stream waits for it"
        yield Finding((*at, "path"), message, files.path, warning=True)


def _on_s3(at: Path_, files: FilesSource, folder: str) -> Iterator[Finding]:
    if _BUCKET.fullmatch(folder) is None:
        message = "a place on S3 is s3://BUCKET/PREFIX; a bucket is 3 to 63 of a-z, 0-9, . and -"
        yield Finding((*at, "path"), message, files.path)
    elif files.after == "archive" and folder.count("/") < 3:
        message = "what is archived goes beside the folder that is read, and beside a bucket is another one: read a "
        yield Finding((*at, "after"), f"{message}prefix of it (s3://BUCKET/PREFIX), or keep or delete", files.after)


Taking = tuple[StreamSpec, str, FilesSource]
"""A stream, the name of one of its sources, and that source."""


def takers(streams: Sequence[StreamSpec]) -> Iterator[tuple[Taking, Taking]]:
    """Sources that move or delete landed files while another source reads the same folder."""
    every: list[Taking] = [
        (spec, str(name), source.files)
        for spec in streams
        for name, source in spec.sources.items()
        if source.files is not None and not elsewhere(source.files.path)
    ]
    for one in every:
        if one[2].after == "keep":
            continue
        place = _place(one[2])
        other = next((item for item in every if item is not one and _overlap(place, _place(item[2]))), None)
        if other is not None:
            yield one, other


def _place(files: FilesSource) -> str:
    return hadoop(folder_of(files.path))


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def table_source_findings(spec: StreamSpec) -> Iterator[Finding]:
    """Problems of the table sources of one stream."""
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
            yield Finding((*at, source.connector, "starting"), f"{message}; use starting_timestamp:", "latest")


Fed = tuple[StreamSpec, str, str]
"""A stream that reads a table, the name of that source, and the problem."""


def feeding(streams: Sequence[StreamSpec]) -> Iterator[Fed]:
    """Table sources that another stream writes in a mode that cannot be streamed, or that form a cycle."""
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
    """Whether rows that `start` lands reach `end`."""
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
    readers: dict[str, list[str]] = {}
    for name, spec in sorted(streams.items()):
        for source in spec.sources.values():
            upstream = tables.get(source.from_table or "")
            if upstream is not None and upstream != name:
                readers.setdefault(upstream, []).append(str(name))
    return readers


SINKS = ("kafka", "python", "console", "format")
"""Sinks that keep no position."""
_LOST = "lines of a socket cannot be read twice"


def socket_findings(spec: StreamSpec) -> Iterator[Finding]:
    """Problems of a stream that reads a socket, and the guarantees it lacks."""
    for name, source in spec.sources.items():
        if source.socket is None:
            continue
        at: Path_ = ("sources", name)
        warning = f"{_LOST}: lines are lost with every stop, kill and failure; for looking, not for data"
        yield Finding((*at, "socket"), warning, key=True, warning=True)
        if source.decode is not None:
            how = "a line of a socket is one column, value; from_json(value, ..) in the SQL makes columns of it"
            yield Finding((*at, "decode"), f"decode belongs to records of bytes; {how}", key=True)
        if len(spec.sources) > 1:
            why = "a stream that reads it starts without a position at every start, and so would its other sources"
            yield Finding((*at, "socket"), f"{why}: use a separate stream for it", key=True)
        if spec.trigger.available_now:
            yield Finding(("trigger", "available_now"), "a socket has no end that could be available; use every:")
        if spec.sink.connector not in SINKS:
            why = f"{_LOST}, so there is no position, and {spec.sink.connector} would contain " \
                  "lines that cannot be audited"  # fmt: skip
            instead = "use console, kafka or python; or put the lines into a topic or a file and land that"
            yield Finding(("sink", spec.sink.connector), f"{why}; {instead}", spec.sink.connector, SINKS, key=True,
                          needs=((*at, "socket"),))  # fmt: skip
