"""`DeltaLog`: reads the files of a Delta log: commits by version, the newest checkpoint, and both in order.

It reads files only, without a JVM. Its callers (`log`, `state`, the source, the checks) interpret the actions. `put`
commits a version, in the same way as `LinkLogStore` does in a JVM.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lakeward.connectors.aws import conditional
from lakeward.connectors.delta.folder import Folder, StorePath, parquet
from lakeward.platform.errors import Refused

LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_NEWER = re.compile(r"(\d{20})\.checkpoint\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.(?:parquet|json)")
"""A checkpoint of version 2 with a name of its own; it may also have the name of a classic one."""
_SIDECARS = "_sidecars"
Action = dict[str, Any]
"""One line of a commit: the kind of action -> its fields."""


@dataclass(frozen=True)
class Listing:
    """A listing of the log's folder.

    Attributes:
        versions: versions whose commit file exists, oldest first.
        checkpoints: version -> the files of a complete checkpoint.
    """

    versions: tuple[int, ...]
    checkpoints: Mapping[int, tuple[str, ...]]

    def checkpoint(self, most: int | None = None) -> int:
        """The version of the newest checkpoint (up to version `most`); -1 if there is no checkpoint."""
        return max((version for version in self.checkpoints if most is None or version <= most), default=-1)


@dataclass(frozen=True)
class DeltaLog:
    """The log of the table in `folder`."""

    folder: Folder

    @property
    def path(self) -> Folder:
        """The folder of the log."""
        return self.folder / LOG

    @property
    def exists(self) -> bool:
        return self.path.is_dir()

    def listing(self) -> Listing:
        """Lists the log now; the listing is empty if there is no log."""
        names = [file.name for file in self.path.iterdir()] if self.exists else []
        versions = (int(match[1]) for name in names if (match := _COMMIT.fullmatch(name)) is not None)
        return Listing(tuple(sorted(versions)), _complete_checkpoints(names))

    def begun(self) -> bool:
        """Whether the log has any file of a commit or a checkpoint, a form that is not known here included.

        Files of a CREATE TABLE that died before its first commit do not count: hidden ones, and the empty folder.
        """
        return any(not file.name.startswith(".") and file.name != _SIDECARS for file in self.path.iterdir())

    def times(self, listing: Listing) -> dict[int, int]:
        """Version -> the time of its commit file (milliseconds since 1970), oldest first."""
        version_of = {_name(version): version for version in listing.versions}
        times: dict[int, int] = {}
        for file in self.path.iterdir():
            if file.name in version_of:
                with suppress(FileNotFoundError):  # the log's clean-up deleted it since the listing
                    times[version_of[file.name]] = int(file.stat().st_mtime * 1000)
        return dict(sorted(times.items()))

    def made(self, listing: Listing) -> str:
        """What differs between two tables of the same name and versions."""
        if isinstance(self.path, StorePath):
            newest = max(listing.versions, default=None)
            return "" if newest is None else repr((self.path / _name(newest)).stat())
        found = self.path.stat()
        return f"{found.st_ino} {found.st_mtime_ns}"

    def size(self) -> int:
        """The size of all files of the log, in bytes."""
        total = 0
        for file in self.path.iterdir():
            with suppress(FileNotFoundError):  # the log's clean-up deleted it since the listing
                total += file.stat().st_size
        return total

    def actions(self, version: int, *kinds: str) -> Iterator[Action]:
        """The actions of one commit, line by line.

        Args:
            kinds: the kinds of actions to parse, e.g. `commitInfo`. Without any, all are parsed.

        Raises:
            FileNotFoundError: the commit file no longer exists (Delta deletes log files after the table's retention).
            ValueError: the commit file is not valid.
        """
        begin = re.compile(rf'\s*{{\s*"(?:{"|".join(kinds)})"' if kinds else r"\s*\S")
        file = self.path / _name(version)
        with _named(file), file.open(encoding="utf-8") as lines:
            for line in lines:
                if begin.match(line):
                    yield json.loads(line)

    def checkpoint_actions(self, files: Sequence[str], columns: Sequence[str]) -> Iterator[Action]:
        """The actions in the files of a checkpoint, and in the sidecars that a checkpoint of version 2 names.

        Args:
            columns: the columns to read, e.g. `add.path`; columns that a file does not have are skipped.

        Raises:
            FileNotFoundError: a newer checkpoint replaced this one since the listing.
        """
        sidecars: list[str] = []
        for name in files:
            for action in self._checkpoint_file(self.path / name, (*columns, "sidecar.path")):
                sidecar = action.pop("sidecar", None)
                if sidecar is not None:
                    sidecars.append(sidecar["path"])
                yield action
        for name in sidecars:
            yield from self._checkpoint_file(self.path / _SIDECARS / name, columns)

    @staticmethod
    def _checkpoint_file(file: Folder, columns: Sequence[str]) -> Iterator[Action]:
        kinds = {column.split(".")[0] for column in columns}
        if file.suffix == ".json":
            with _named(file), file.open(encoding="utf-8") as lines:
                for line in lines:
                    if line.strip():
                        yield {kind: value for kind, value in json.loads(line).items() if kind in kinds}
            return
        import pyarrow.parquet as pq  # the watcher, which needs the paths alone, loads no engine

        with _named(file):
            source = pq.ParquetFile(parquet(file))
        kinds = set(source.schema_arrow.names)
        for batch in source.iter_batches(columns=[column for column in columns if column.split(".")[0] in kinds]):
            for row in batch.to_pylist():
                yield {kind: _plain(value) for kind, value in row.items() if _is_set(value)}

    def replay(self, listing: Listing, upto: int, columns: Sequence[str], *kinds: str) -> Iterator[tuple[int, Action]]:
        """All actions that make up a version, oldest first: the newest checkpoint, then the commits after it.

        Args:
            columns: see `checkpoint_actions`.
            kinds: see `actions`.

        Raises:
            FileNotFoundError: a commit after the checkpoint no longer exists.
            ValueError: a commit file is not valid.
        """
        base = listing.checkpoint(upto)
        for action in self.checkpoint_actions(listing.checkpoints.get(base, ()), columns):
            yield base, action
        for version in range(base + 1, upto + 1):
            for action in self.actions(version, *kinds):
                yield version, action

    def put(self, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Commit a version atomically, synced to disk; False if the version already exists (ADR 45).

        On an object store a Java process sends the conditional PUT (ADR 113): some seconds of CPU.
        """
        lines = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
        if isinstance(self.path, StorePath):
            return conditional.create(self.path.lake, str(self.path / _name(version)), lines.encode())
        file = self.path / _name(version)
        temporary = file.with_name(f".{file.name}.{uuid.uuid4()}.tmp")
        try:
            with temporary.open("x", encoding="utf-8") as out:
                out.write(lines)
                out.flush()
                os.fsync(out.fileno())
            os.link(temporary, file)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        parent = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
        return True

    def unreadable(self, why: str, next: str = "") -> Refused:
        """The error for a table that cannot be read here. `next`: default is a query, where Spark can read it."""
        return Refused(
            f"The Delta table in {self.folder} cannot be read without Spark",
            why=why,
            next=next or 'lakeward sql "SELECT ... FROM spark_catalog.<namespace>.<table>"   reads it',
            code="LW-3034",
        )


@contextmanager
def _named(file: Folder) -> Iterator[None]:
    """Name the file in what its readers say of it: Python and Arrow say what is wrong, and not where."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error


def _name(version: int) -> str:
    return f"{version:020d}.json"


def _complete_checkpoints(names: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """Version -> the files of its checkpoint, if all parts exist; one of those of version 2 where there is no other."""
    checkpoints: dict[int, list[str]] = {}
    parts: dict[int, int] = {}
    newer: dict[int, tuple[str, ...]] = {}
    for name in sorted(names):
        if (match := _CHECKPOINT.fullmatch(name)) is not None:
            checkpoints.setdefault(int(match[1]), []).append(name)
            parts[int(match[1])] = int(match[3] or 1)
        elif (match := _NEWER.fullmatch(name)) is not None:
            newer[int(match[1])] = (name,)
    return newer | {version: tuple(files) for version, files in checkpoints.items() if len(files) >= parts[version]}


def commit_info(
    operation: str,
    read: int,
    *,
    attempt: str = "",
    parameters: Mapping[str, Any] | None = None,
    metrics: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The action `commitInfo` of a commit without Spark, for `DESCRIBE HISTORY`.

    Args:
        read: the version it was made on.
        attempt: its user metadata.
    """
    info = {
        "timestamp": int(time.time() * 1000),
        "operation": operation,
        "operationParameters": dict(parameters or {}),
        "readVersion": read,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {name: str(value) for name, value in (metrics or {}).items()},
        "userMetadata": attempt,
        "engineInfo": "Lakeward",
        "txnId": str(uuid.uuid4()),
    }
    return {"commitInfo": info}


def _is_set(value: Any) -> bool:
    """Whether a row of a checkpoint is an action of this kind. The other kinds are null or have no path."""
    return value is not None and (not isinstance(value, dict) or value.get("path", "") is not None)


def _plain(value: Any) -> Any:
    """Converts maps, which PyArrow returns as lists of pairs, to dictionaries."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    return value
