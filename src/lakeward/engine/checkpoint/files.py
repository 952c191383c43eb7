"""Reads the files of a checkpoint: from a local disk, or through Hadoop from an object store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.files.log import LogBroken, SourceLog, log_offset
from lakeward.engine.checkpoint import layout
from lakeward.engine.checkpoint.layout import Checkpoint, Entry, Operator, Store
from lakeward.spec.model.file_paths import here, local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READ = 2  # the newest files; Spark reads only these at a restart


class Files(Protocol):
    """A file system, as the reader of a checkpoint needs it."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; empty if it does not exist."""
        ...

    def text(self, file: str) -> str | None:
        """A file's text; None if it does not exist."""
        ...

    def fits(self, file: str) -> bool:
        """Whether the file has its checksum, if there is a checksum file."""
        ...


class LocalFiles:
    """Files on a local disk."""

    def names(self, folder: str) -> list[str]:
        path = Path(local(folder))
        return [file.name for file in path.iterdir()] if path.is_dir() else []

    def text(self, file: str) -> str | None:
        path = Path(local(file))
        return path.read_text(errors="replace") if path.is_file() else None

    def fits(self, file: str) -> bool:
        path = Path(local(file))
        sums = path.with_name(f".{path.name}.crc")
        return not (path.is_file() and sums.is_file()) or layout.fits(path.read_bytes(), sums.read_bytes())


class HadoopFiles:
    """Files on any file system that the JVM has."""

    def __init__(self, session: SparkSession) -> None:
        self._jvm = session._jvm
        self._conf = session._jsparkSession.sessionState().newHadoopConf()

    def names(self, folder: str) -> list[str]:
        path = self._jvm.org.apache.hadoop.fs.Path(folder)  # type: ignore[union-attr]  # classic sessions have a JVM
        system = path.getFileSystem(self._conf)
        return [str(file.getPath().getName()) for file in system.listStatus(path)] if system.exists(path) else []

    def text(self, file: str) -> str | None:
        path = self._jvm.org.apache.hadoop.fs.Path(file)  # type: ignore[union-attr]  # classic sessions have a JVM
        system = path.getFileSystem(self._conf)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))  # type: ignore[union-attr]  # see above
        finally:
            stream.close()

    def fits(self, file: str) -> bool:
        return True  # the client compares checksums while it reads


def files_of(session: SparkSession, folder: str) -> Files:
    """The file system of `folder`."""
    return LocalFiles() if here(folder) else HadoopFiles(session)


def read(files: Files, folder: str) -> Checkpoint:
    """Read a checkpoint."""
    metadata = files.text(f"{folder}/metadata")
    offsets, commits = _log(files, f"{folder}/offsets", offsets=True), _log(files, f"{folder}/commits", offsets=False)
    offsets = {number: _positions(files, folder, entry) for number, entry in offsets.items()}
    looked_at = ["metadata", *(f"offsets/{n}" for n in sorted(offsets)[-_READ:])]
    looked_at += [f"commits/{n}" for n in sorted(commits)[-1:]]
    return Checkpoint(
        folder=folder,
        query_id=None if metadata is None else layout.parse_metadata(metadata),
        offsets=offsets,
        commits=commits,
        initial=_initial(files, f"{folder}/sources") if not commits else {},
        misfits=tuple(file for file in looked_at if not files.fits(f"{folder}/{file}")),
        state=_state(files, f"{folder}/state"),
    )


def _positions(files: Files, folder: str, entry: Entry) -> Entry:
    """The entry with its ends as positions. That of a file source comes from its log."""
    if not any(log_offset(end) is not None for end in entry.ends):
        return entry
    try:
        ends = [SourceLog(files, f"{folder}/sources/{index}").canonical(end) for index, end in enumerate(entry.ends)]
    except LogBroken as broken:
        return replace(entry, ends=(), broken=f"its position is in {broken.file}, and {broken.reason}")
    return replace(entry, ends=tuple(ends))


def _initial(files: Files, folder: str) -> dict[int, Entry]:
    found = {}
    for name in filter(str.isdigit, files.names(folder)):
        if (text := files.text(f"{folder}/{name}/0")) is not None:
            found[int(name)] = layout.parse_initial(text)
        elif (text := files.text(f"{folder}/{name}/offsets/0")) is not None:  # the Iceberg source
            found[int(name)] = layout.parse_initial(f"v1\n{text}")
    return found


def _state(files: Files, folder: str) -> tuple[Operator, ...]:
    found = []
    for number in sorted(int(name) for name in files.names(folder) if name.isdigit()):
        partitions = sorted(int(name) for name in files.names(f"{folder}/{number}") if name.isdigit())
        stores = [store for part in partitions for store in _stores(files, folder, f"{number}/{part}")]
        metadata = files.text(f"{folder}/{number}/_metadata/metadata")
        declared = None if metadata is None else layout.parse_operator(metadata)
        found.append(Operator(number, frozenset(partitions), tuple(stores), declared))
    return tuple(found)


def _stores(files: Files, folder: str, name: str) -> list[Store]:
    """The stores of one partition: its folder is a store, or has one for each side of a join."""
    names = files.names(f"{folder}/{name}")
    own = layout.store_of(name, names)
    if own is not None:
        return [own]
    below = [layout.store_of(f"{name}/{part}", files.names(f"{folder}/{name}/{part}")) for part in sorted(names)]
    return [store for store in below if store is not None] or [Store(name)]


def _log(files: Files, folder: str, *, offsets: bool) -> dict[int, Entry]:
    numbers = sorted(int(name) for name in files.names(folder) if name.isdigit())
    found = dict.fromkeys(numbers, Entry())
    for number in numbers[-_READ:]:
        text = files.text(f"{folder}/{number}")
        if text is not None:
            found[number] = layout.parse_offsets(text) if offsets else layout.parse_commit(text)
    return found


def unfinished(files: Files, folder: str, sources: Sequence[str]) -> tuple[int, dict[str, dict[str, str]]] | None:
    """The unfinished batch, with start and end of each source; None if there is none.

    Args:
        files: result of `files_of`.
        folder: the checkpoint.
        sources: their names in the query's order.
    """
    offsets, commits = _log(files, f"{folder}/offsets", offsets=True), _log(files, f"{folder}/commits", offsets=False)
    newest = max(offsets, default=-1)
    if newest < 0 or newest in commits:
        return None
    offsets = {number: _positions(files, folder, entry) for number, entry in offsets.items()}
    ends = offsets[newest].ends
    starts = offsets[newest - 1].ends if newest - 1 in offsets else ()
    names = sources if len(sources) == len(ends) else [str(number) for number in range(1, len(ends) + 1)]
    offsets_of_sources = {
        name: {"start": starts[index] if index < len(starts) else NO_DATA, "end": end}
        for index, (name, end) in enumerate(zip(names, ends, strict=True))
    }
    return newest, offsets_of_sources
