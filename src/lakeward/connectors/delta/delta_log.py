"""`DeltaLog`: the one reader of a Delta table's log. Commits by version, the newest checkpoint, and both in order.

Only files are read here, without a JVM. What their actions mean is decided by who asks: `log`, `state`, the source, the
checks. A version is committed here too (`put`), as `LinkLogStore` does it in a JVM.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lakeward.platform.errors import Refused

LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
Action = dict[str, Any]
"""One line of a commit: the kind of action -> what it says."""


@dataclass(frozen=True)
class Listing:
    """The log's folder at one moment.

    Attributes:
        versions: commits whose file is there, oldest first.
        checkpoints: version -> the files of a whole checkpoint.
    """

    versions: tuple[int, ...]
    checkpoints: Mapping[int, tuple[str, ...]]

    def checkpoint(self, most: int | None = None) -> int:
        """The newest checkpoint (up to version `most`); -1 without one."""
        return max((version for version in self.checkpoints if most is None or version <= most), default=-1)


@dataclass(frozen=True)
class DeltaLog:
    """The log of the table in `folder`."""

    folder: Path

    @property
    def place(self) -> Path:
        """The log's own folder."""
        return self.folder / LOG

    @property
    def exists(self) -> bool:
        return self.place.is_dir()

    def listing(self) -> Listing:
        """What is in the log now; nothing where there is no log."""
        names = [each.name for each in self.place.iterdir()] if self.exists else []
        versions = (int(found[1]) for name in names if (found := _COMMIT.fullmatch(name)) is not None)
        return Listing(tuple(sorted(versions)), _whole(names))

    def times(self, listing: Listing) -> dict[int, int]:
        """Version -> when it was committed: milliseconds since 1970, by the time of its file. Oldest first."""
        found: dict[int, int] = {}
        for version in listing.versions:
            with suppress(FileNotFoundError):  # cleaned up meanwhile
                found[version] = int((self.place / _name(version)).stat().st_mtime * 1000)
        return found

    def size(self) -> int:
        """Bytes of everything in the log."""
        total = 0
        for each in self.place.iterdir():
            with suppress(FileNotFoundError):  # cleaned up meanwhile
                total += each.stat().st_size
        return total

    def actions(self, version: int, *kinds: str) -> Iterator[Action]:
        """What one commit says, line by line.

        Args:
            kinds: the actions that are wanted, e.g. `commitInfo`; others are not parsed. Without any: all.

        Raises:
            FileNotFoundError: its file is gone (Delta cleans its log up after the table's retention).
            ValueError: it cannot be read.
        """
        wanted = tuple(f'{{"{kind}"' for kind in kinds)
        with (self.place / _name(version)).open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip() and (not wanted or line.startswith(wanted)):
                    yield json.loads(line)

    def checkpoint_actions(self, files: Sequence[str], columns: Sequence[str]) -> Iterator[Action]:
        """The actions in the files of a checkpoint.

        Args:
            columns: what is read of them, e.g. `add.path`; what a file does not have is left out.
        """
        for name in files:
            source = pq.ParquetFile(self.place / name)
            has = set(source.schema_arrow.names)
            for batch in source.iter_batches(columns=[each for each in columns if each.split(".")[0] in has]):
                for row in batch.to_pylist():
                    yield {kind: _plain(value) for kind, value in row.items() if _said(value)}

    def replay(self, listing: Listing, upto: int, columns: Sequence[str], *kinds: str) -> Iterator[tuple[int, Action]]:
        """Every action that makes up a version, oldest first: the newest checkpoint and the commits behind it.

        Args:
            columns: as of `checkpoint_actions`.
            kinds: as of `actions`.

        Raises:
            FileNotFoundError: a commit in between is gone.
            ValueError: one cannot be read.
        """
        base = listing.checkpoint(upto)
        for action in self.checkpoint_actions(listing.checkpoints.get(base, ()), columns):
            yield base, action
        for version in range(base + 1, upto + 1):
            for action in self.actions(version, *kinds):
                yield version, action

    def put(self, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Commit a version, whole and on disk; False: it is taken (ADR 45)."""
        place = self.place / _name(version)
        fresh = place.with_name(f".{place.name}.{uuid.uuid4()}.tmp")
        try:
            with fresh.open("x", encoding="utf-8") as out:
                for action in actions:
                    out.write(json.dumps(action, separators=(",", ":")) + "\n")
                out.flush()
                os.fsync(out.fileno())
            os.link(fresh, place)
        except FileExistsError:
            return False
        finally:
            fresh.unlink(missing_ok=True)
        parent = os.open(self.place, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
        return True

    def unreadable(self, why: str) -> Refused:
        """The error of a table in a form that only Spark reads."""
        return Refused(
            f"The Delta table in {self.folder} cannot be read without Spark",
            why=why,
            next='lakeward sql "SELECT ... FROM spark_catalog.<namespace>.<table>"   reads it',
            code="LW-3034",
        )


def _name(version: int) -> str:
    return f"{version:020d}.json"


def _whole(names: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """The checkpoints of which every part is there."""
    found: dict[int, list[str]] = {}
    parts: dict[int, int] = {}
    for name in names:
        if (match := _CHECKPOINT.fullmatch(name)) is not None:
            found.setdefault(int(match[1]), []).append(name)
            parts[int(match[1])] = int(match[3] or 1)
    return {version: tuple(sorted(files)) for version, files in found.items() if len(files) >= parts[version]}


def _said(value: Any) -> bool:
    """Whether a row of a checkpoint is this kind of action: the others are null, or have no path."""
    return value is not None and (not isinstance(value, dict) or value.get("path", "") is not None)


def _plain(value: Any) -> Any:
    """Maps come out of Parquet as lists of pairs."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list) and all(isinstance(each, tuple) for each in value):
        return dict(value)
    return value
