"""A Delta table's own log, read without a JVM: what each commit did, who published it, which files hold the rows.

Only what Lakeward asks: classic checkpoints, no deletion vectors, no column mapping. A table that uses more is refused
by name instead of being read wrongly; Spark reads it as ever.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.connectors.commit_protocol import ancestry
from lakeward.connectors.commit_protocol.ancestry import Ancestry, Link
from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.platform.errors import Refused
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

LOG = "_delta_log"
COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_NEEDED = ("add.path", "add.partitionValues", "add.deletionVector", "metaData", "domainMetadata")
_ABOUT = ('{"commitInfo"', '{"domainMetadata"')
_WHO = ('{"metaData"', '{"protocol"')


@dataclass(frozen=True)
class Commit:
    """What one commit says of itself.

    Attributes:
        version: its number.
        operation, parameters: as Delta's history shows them.
        attempt: the writer's own word for it: `<stream>/<seq>/<nonce>` of a batch.
        at_ms: when, by the writer's clock, milliseconds since 1970.
        domains: the domain metadata it sets, None for one it removes.
    """

    version: int
    operation: str = "unknown"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    attempt: str | None = None
    at_ms: int = 0
    domains: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def parent(self) -> int | None:
        """The version whose rows this one goes on from; None if it begins anew, -1 if that cannot be told."""
        if self.operation == "RESTORE":
            target = self.parameters.get("version")
            return int(target) if target is not None and str(target).isdigit() else -1
        if self.version == 0 or "REPLACE TABLE" in self.operation or self.operation == "CLONE":
            return None
        return self.version - 1

    @property
    def link(self) -> Link:
        """As a link of the chain of what is in the table."""
        return Link(self.version, self.version, self.parent, self.operation, self.attempt, self.attempt)


def commit(folder: Path, version: int) -> Commit | None:
    """One commit; None where its file is gone (Delta cleans its log up after the table's retention)."""
    try:
        text = (folder / LOG / f"{version:020d}.json").read_text()
    except FileNotFoundError:
        return None
    about: dict[str, Any] = {}
    domains: dict[str, str | None] = {}
    for line in text.splitlines():
        if not line.startswith(_ABOUT):  # the files of a large commit are not parsed
            continue
        action = json.loads(line)
        about |= action.get("commitInfo") or {}
        if (domain := action.get("domainMetadata")) is not None:
            domains[domain["domain"]] = None if domain.get("removed") else domain["configuration"]
    return Commit(
        version=version,
        operation=str(about.get("operation", "unknown")),
        parameters=about.get("operationParameters") or {},
        attempt=about.get("userMetadata"),
        at_ms=int(about.get("timestamp") or 0),
        domains=domains,
    )


def actions(folder: Path, version: int) -> list[dict[str, Any]]:
    """Everything one commit says, its files too.

    Raises:
        FileNotFoundError: its file is gone.
        ValueError: it cannot be read.
    """
    return list(_of_json(folder / LOG / f"{version:020d}.json"))


@dataclass(frozen=True)
class Head:
    """Who a table is at its newest version, whatever forms of Delta it uses.

    Attributes:
        metadata, protocol: as the log has them.
        versions: commits whose file is kept -> when (milliseconds since 1970, the time of its file), oldest first.
    """

    folder: Path
    version: int
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    versions: Mapping[int, int]

    @property
    def table_id(self) -> str:
        """The table's own id: another one after it was removed, or replaced, and made again."""
        return str(self.metadata.get("id"))

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.metadata.get("configuration") or {})

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.metadata.get("partitionColumns") or ())

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The columns, as Delta's schema has them."""
        found: list[dict[str, Any]] = json.loads(self.metadata.get("schemaString") or '{"fields": []}')["fields"]
        return found


def head(folder: Path) -> Head | None:
    """The newest version; None if there is no table. Reads the commits since the newest checkpoint, no list of files.

    Raises:
        Refused: only Spark can tell.
    """
    if not (folder / LOG).is_dir():
        return None
    stats = [(each.name, each.stat().st_mtime) for each in (folder / LOG).iterdir()]
    versions = {int(found[1]): int(at * 1000) for name, at in stats if (found := COMMIT.fullmatch(name)) is not None}
    if not versions:
        raise unreadable(folder, "its log has no commit left")
    newest = max(versions)
    base, parts = checkpoint([name for name, _ in stats], newest)
    said: dict[str, Mapping[str, Any]] = {}
    for version in range(newest, base, -1):
        for line in _lines(folder, version):
            if line.startswith(_WHO):
                said = {**json.loads(line), **said}
        if len(said) == len(_WHO):
            break
    for name in parts if len(said) < len(_WHO) else ():
        for action in _of_parquet(folder / LOG / name, ("metaData", "protocol")):
            who = {key: value for key, value in action.items() if value.get("id") or value.get("minReaderVersion")}
            said = {**who, **said}
    if len(said) < len(_WHO):
        raise unreadable(folder, "its log begins with a checkpoint of a newer form, or has a hole")
    return Head(folder, newest, said["metaData"], said["protocol"], dict(sorted(versions.items())))


def live(head: Head) -> list[Mapping[str, Any]] | None:
    """The `add` actions of the files the newest version has; None where only Spark can tell."""
    base, parts = checkpoint([each.name for each in (head.folder / LOG).iterdir()], head.version)
    found: dict[str, Mapping[str, Any]] = {}
    for name in parts:
        wanted = ("add.path", "add.partitionValues", "add.stats", "add.deletionVector")
        held = (each["add"] for each in _of_parquet(head.folder / LOG / name, wanted) if "add" in each)
        found |= {each["path"]: each for each in held}
    for version in range(base + 1, head.version + 1):
        try:
            said = actions(head.folder, version)
        except (FileNotFoundError, ValueError):
            return None
        for path in [each["remove"]["path"] for each in said if "remove" in each]:
            found.pop(path, None)
        found |= {each["add"]["path"]: each["add"] for each in said if "add" in each}
    return list(found.values())


def _lines(folder: Path, version: int) -> list[str]:
    try:
        return (folder / LOG / f"{version:020d}.json").read_text().splitlines()
    except FileNotFoundError:
        raise unreadable(folder, "its log begins with a checkpoint of a newer form, or has a hole") from None


def walk(folder: Path, head: int, at: int | None) -> Ancestry:
    """From version `head` down to `at`, the position's; None: there is no position, and all that is left is listed."""

    def look_up(version: int) -> Link | None:
        if version < 0 or (at is not None and version <= at):
            return Link(version, version, None)  # there the walk ends, whatever stands below it
        return link(folder, version)

    return ancestry.walk(head, look_up, at, at if at is not None else 0)


def link(folder: Path, version: int) -> Link | None:
    """One commit as a link of the chain; None where its file is gone."""
    found = commit(folder, version)
    return None if found is None else found.link


def domains(folder: Path, version: int) -> dict[str, str] | None:
    """The domain metadata at a version, as anybody who opens the table now reads it; None where only Spark can tell.

    The newest checkpoint up to there and the commits behind it, from the disk: no job, and no cache of anybody's.
    """
    base, parts = checkpoint([each.name for each in (folder / LOG).iterdir()], version)
    found: dict[str, str] = {}
    for name in parts:
        file = pq.ParquetFile(folder / LOG / name)
        if "domainMetadata" in file.schema_arrow.names:
            for batch in file.iter_batches(columns=["domainMetadata"]):
                found |= {row["domain"]: row["configuration"] for row in batch.column(0).to_pylist() if row is not None}
    for number in range(base + 1, version + 1):
        said = commit(folder, number)
        if said is None:
            return None
        for name, configuration in said.domains.items():
            if configuration is None:
                found.pop(name, None)
            else:
                found[name] = configuration
    return found


@dataclass(frozen=True)
class TableLog:
    """A table at its newest version.

    Attributes:
        folder, version: where, and which.
        files: path as the log has it -> the values of the partition columns, as text.
        domains: domain -> configuration.
        metadata: the table's own: id, configuration, columns.
    """

    folder: Path
    version: int
    files: Mapping[str, Mapping[str, str | None]]
    domains: Mapping[str, str]
    metadata: Mapping[str, Any]


def read(folder: Path) -> TableLog | None:
    """The newest version of the table in `folder`; None if there is none.

    Raises:
        Refused: the table uses something only Spark reads here.
    """
    if not (folder / LOG).is_dir():
        return None
    names = [each.name for each in (folder / LOG).iterdir()]
    commits = sorted(int(found[1]) for name in names if (found := COMMIT.fullmatch(name)))
    base, parts = checkpoint(names)
    files: dict[str, Mapping[str, str | None]] = {}
    domains: dict[str, str] = {}
    metadata: Mapping[str, Any] = {}
    actions: Iterator[dict[str, Any]]
    following = [version for version in commits if version > base]
    if following != list(range(base + 1, base + 1 + len(following))) or (base < 0 and not following):
        raise unreadable(folder, "its log begins with a checkpoint of a newer form, or has a hole")
    for actions in [_of_parquet(folder / LOG / name) for name in parts] + [
        _of_json(folder / LOG / f"{version:020d}.json") for version in following
    ]:
        for action in actions:
            if (add := action.get("add")) is not None:
                if add.get("deletionVector"):
                    raise unreadable(folder, "it has deletion vectors")
                files[add["path"]] = dict(add.get("partitionValues") or {})
            if (gone := action.get("remove")) is not None:
                files.pop(gone["path"], None)
            if (domain := action.get("domainMetadata")) is not None:
                if domain.get("removed"):
                    domains.pop(domain["domain"], None)
                else:
                    domains[domain["domain"]] = domain["configuration"]
            metadata = action.get("metaData") or metadata
    configuration = dict(metadata.get("configuration") or {})
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise unreadable(folder, "it maps column names")
    return TableLog(folder, following[-1] if following else base, files, domains, metadata)


def scan(table: TableLog) -> Scan:
    """Reads the identity columns of the newest version's rows, file by file."""

    def rows(topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        assert stream is None, "rows put aside stand in an Iceberg table"
        topic = IDENTITY_COLUMNS["kafka"][0]
        for path, values in table.files.items():
            found = _identity(table.folder, path, values)
            yield from found.filter(pc.is_in(found.column(topic), value_set=pa.array(topics))).to_batches()

    return rows


_TYPES = dict(zip(IDENTITY_COLUMNS["kafka"], (pa.string(), pa.int32(), pa.int64()), strict=True))


def _identity(folder: Path, path: str, values: Mapping[str, str | None]) -> pa.Table:
    """The identity columns of one file; those the table is partitioned by are the same in every row of it."""
    file = pq.ParquetFile(absolute(folder, path))
    inside = file.read([name for name in _TYPES if name not in values])
    columns = {
        name: pa.repeat(pa.scalar(values[name]).cast(kind), inside.num_rows) if name in values else inside.column(name)
        for name, kind in _TYPES.items()
    }
    return pa.table(columns)


def absolute(folder: Path, path: str) -> Path:
    """The log has paths as URIs, relative to the table unless the file came from elsewhere."""
    parsed = urlparse(path)
    return folder / unquote(parsed.path if parsed.scheme else path)


def checkpoint(names: Sequence[str], most: int | None = None) -> tuple[int, list[str]]:
    """The newest whole checkpoint (up to version `most`): its version and files; -1 and none without one."""
    found: dict[int, list[str]] = {}
    wanted: dict[int, int] = {}
    for name in names:
        if (match := _CHECKPOINT.fullmatch(name)) is not None:
            version = int(match[1])
            found.setdefault(version, []).append(name)
            wanted[version] = int(match[3] or 1)
    near = (version for version in found if most is None or version <= most)
    whole = [version for version in near if len(found[version]) >= wanted[version]]
    return (max(whole), sorted(found[max(whole)])) if whole else (-1, [])


def _of_parquet(file: Path, needed: Sequence[str] = _NEEDED) -> Iterator[dict[str, Any]]:
    source = pq.ParquetFile(file)
    has = set(source.schema_arrow.names)
    columns = [name for name in needed if name.split(".")[0] in has]
    for batch in source.iter_batches(columns=columns):
        for row in batch.to_pylist():
            add = row.get("add")
            if add is not None:
                row["add"] = None if add["path"] is None else add
            yield {name: _plain(value) for name, value in row.items() if value is not None}


def _plain(value: Any) -> Any:
    """Maps come out of Parquet as lists of pairs."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list) and all(isinstance(each, tuple) for each in value):
        return dict(value)
    return value


def _of_json(file: Path) -> Iterator[dict[str, Any]]:
    with file.open() as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def put(folder: Path, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Commit a version, whole and on disk; False: it is taken. As `LinkLogStore` does it in a JVM (ADR 45)."""
    place = folder / LOG / f"{version:020d}.json"
    fresh = place.with_name(f".{place.name}.{uuid.uuid4()}.tmp")
    try:
        with fresh.open("x") as out:
            for action in actions:
                out.write(json.dumps(action, separators=(",", ":")) + "\n")
            out.flush()
            os.fsync(out.fileno())
        os.link(fresh, place)
    except FileExistsError:
        return False
    finally:
        fresh.unlink(missing_ok=True)
    parent = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
    return True


def unreadable(folder: Path, why: str) -> Refused:
    """The error of a table in a form that only Spark reads."""
    return Refused(
        f"The Delta table in {folder} cannot be read without Spark",
        why=why,
        next='lakeward sql "SELECT ... FROM spark_catalog.<namespace>.<table>"   reads it',
    )
