"""Parses the files of a checkpoint, in the form that Spark 4.1 writes."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakeward.connectors.commit_protocol.offsets import canonical_json
from lakeward.connectors.commit_protocol.position import NO_DATA

OFFSETS_VERSION, COMMITS_VERSION = 1, 2
"""The newest file versions that this Spark reads."""
_CHUNK = 512
_STORE_FILE = re.compile(r"(\d+)(?:_[^.]+)?\.(zip|snapshot|changelog|delta)")


@dataclass(frozen=True)
class Entry:
    """One file of `offsets/`, `commits/` or `sources/<n>/`.

    Attributes:
        broken: why it cannot be read; empty if it can. Only files that Spark reads at a restart are read.
        ends: one canonical text for each source, in the query's order; empty for commits.
        version: of the file's form.
        conf: offsets only: the options that are frozen with the checkpoint.
        continuous: offsets only: written by continuous processing, which starts over until its first epoch is
            committed.
    """

    broken: str = ""
    ends: tuple[str, ...] = ()
    version: int = 1
    conf: Mapping[str, str] = field(default_factory=dict)
    continuous: bool = False


@dataclass(frozen=True)
class Store:
    """One state store: of one operator on one partition. `snapshots` and `changes` are the versions of its files."""

    name: str
    snapshots: frozenset[int] = frozenset()
    changes: frozenset[int] = frozenset()

    def holds(self, version: int) -> bool:
        """Whether a version can be restored: from a snapshot and every change after it."""
        begins = [0, *(snapshot for snapshot in self.snapshots if snapshot <= version)]
        have = self.snapshots | self.changes
        return any(all(step in have for step in range(begin + 1, version + 1)) for begin in begins)


@dataclass(frozen=True)
class Operator:
    """The folder `state/<n>` of an operator. `declared`: its number of partitions by its metadata; None without."""

    number: int
    partitions: frozenset[int]
    stores: tuple[Store, ...]
    declared: int | None = None


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint.

    Attributes:
        query_id: None without the file `metadata`, empty if it cannot be read.
        initial: from `sources/<n>/0`: where each Kafka source began; read only while batch 0 is not finished.
        misfits: files that do not have their checksum (`.<name>.crc`).
        state: the stateful operators.
    """

    folder: str
    query_id: str | None = None
    offsets: Mapping[int, Entry] = field(default_factory=dict)
    commits: Mapping[int, Entry] = field(default_factory=dict)
    initial: Mapping[int, Entry] = field(default_factory=dict)
    misfits: tuple[str, ...] = ()
    state: tuple[Operator, ...] = ()

    @property
    def empty(self) -> bool:
        return self.query_id is None and not self.offsets and not self.commits

    @property
    def newest(self) -> int:
        """The newest planned batch; -1 without any."""
        return max(self.offsets, default=-1)

    @property
    def committed(self) -> int:
        """The newest finished batch; -1 without any."""
        return max(self.commits, default=-1)

    @property
    def conf(self) -> Mapping[str, str]:
        """The frozen options."""
        entry = self.offsets.get(self.newest)
        return entry.conf if entry is not None else {}

    @property
    def missing(self) -> list[int]:
        """Batches in the middle whose offsets were removed by hand. Spark does not read them again."""
        return [number for number in range(min(self.offsets, default=0), self.newest) if number not in self.offsets]


def parse_metadata(text: str) -> str:
    """The query id in `metadata`; empty if there is none."""
    try:
        found = json.loads(text).get("id")
    except (ValueError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


def parse_offsets(text: str) -> Entry:
    """One file of `offsets/`: `v1`, a line of metadata, then a line for each source."""
    lines = text.split("\n")
    version = _version(lines[0])
    if version > OFFSETS_VERSION:
        return Entry(version=version)
    if len(lines) < 3 or not version:
        return Entry(broken="it is empty or cut" if text.strip() else "it is empty (0 bytes of content)")
    ends = []
    try:
        metadata = json.loads(lines[1] or "null")  # continuous processing leaves the line empty
        for line in lines[2:]:
            if line.strip():
                ends.append(NO_DATA if line.strip() == NO_DATA else canonical_json(line))
                if line.startswith(("{", "[")):
                    json.loads(line)
    except ValueError:
        return Entry(broken="its JSON is cut")
    conf = metadata.get("conf") if isinstance(metadata, dict) else None
    frozen = {str(name): str(value) for name, value in conf.items()} if isinstance(conf, dict) else {}
    if not ends:
        return Entry(broken="it names no source")
    return Entry(ends=tuple(ends), conf=frozen, continuous=not lines[1])


def parse_commit(text: str) -> Entry:
    """One file of `commits/`: its version and a line of JSON."""
    lines = text.split("\n")
    version = _version(lines[0])
    if version > COMMITS_VERSION:
        return Entry(version=version)
    if len(lines) < 2 or not version:
        return Entry(broken="it is empty or cut")
    try:
        json.loads(lines[1])
    except ValueError:
        return Entry(broken="its JSON is cut")
    return Entry(version=version)


def parse_initial(text: str) -> Entry:
    """`sources/<n>/0` of a Kafka source: a zero byte, `v1`, and the offsets where it began."""
    lines = text.lstrip("\0").split("\n")
    if len(lines) < 2 or not _version(lines[0]):
        return Entry(broken="it is empty or cut")
    try:
        json.loads(lines[1])
    except ValueError:
        return Entry(broken="its JSON is cut")
    return Entry(ends=(canonical_json(lines[1]),))


def parse_operator(text: str) -> int | None:
    """The number of partitions in `state/<n>/_metadata/metadata`; None if it is not there."""
    try:
        stores = json.loads(text.split("\n")[-1])["stateStoreInfo"]
        return max(int(store["numPartitions"]) for store in stores)
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def store_of(name: str, files: Iterable[str]) -> Store | None:
    """A state store, by the names of its files; None for a folder that is not a store."""
    found = [match for file in files if (match := _STORE_FILE.fullmatch(file)) is not None]
    if not found:
        return None
    snapshots = {int(match[1]) for match in found if match[2] in ("zip", "snapshot")}
    changes = {int(match[1]) for match in found if match[2] in ("changelog", "delta")}
    return Store(name, frozenset(snapshots), frozenset(changes))


def fits(content: bytes, checksum: bytes) -> bool:
    """Whether Hadoop's `.crc` file matches the content. A file of another form is ignored, as Hadoop does."""
    if checksum[:4] != b"crc\0" or len(checksum) < 8:
        return True
    chunk = int.from_bytes(checksum[4:8], "big") or _CHUNK
    sums = b"".join(zlib.crc32(content[at : at + chunk]).to_bytes(4, "big") for at in range(0, len(content), chunk))
    return checksum[8:] == sums


def _version(line: str) -> int:
    """`v1` -> 1; 0 for any other text."""
    return int(line[1:]) if re.fullmatch(r"v\d{1,6}", line.strip()) else 0
