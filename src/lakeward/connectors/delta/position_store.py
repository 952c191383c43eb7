"""The position of a stream in a Delta table: domain metadata, moved without Spark by the next version of the log.

A version can be committed only once, by a hard link (ADR 45), so committing the version after the one that was read is
the compare-and-set. The commit has no rows: only `commitInfo` and the domain, as the writer of a batch commits them
(ADR 22).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.connectors.commit_protocol import ancestry, position
from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.position_store import (
    SWAP_ATTEMPTS,
    PositionStore,
    StoredPosition,
    missing,
    moved_meanwhile,
)
from lakeward.connectors.delta import log
from lakeward.connectors.delta.check import DOMAINS, TableState, check_table
from lakeward.connectors.delta.delta_log import DeltaLog, commit_info
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.delta.log import Head
from lakeward.connectors.delta.properties import stopping
from lakeward.platform.errors import LakewardError, Refused, Transient

OPERATION = "LAKEWARD MOVE POSITION"
"""The operation of the commit in `DESCRIBE HISTORY`."""

INDIFFERENT = frozenset({
    DOMAINS, "appendOnly", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults",
    "changeDataFeed", "identityColumns", "columnMapping", "deletionVectors", "timestampNtz", "clustering",
    "rowTracking", "typeWidening", "typeWidening-preview", "variantType", "variantType-preview", "icebergCompatV1",
    "icebergCompatV2", "v2Checkpoint", "vacuumProtocolCheck", "checkpointProtection",
})  # fmt: skip
"""Writer features with no requirement for a commit that adds no file and changes no column."""
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"


@dataclass(frozen=True)
class DeltaPositionStore(PositionStore):
    """The position of one stream in one Delta table in a local folder."""

    folder: Folder
    name: str
    stream: str

    def read(self) -> StoredPosition:
        """Read the position from the newest version of the log."""
        head = log.head(self.folder)
        if head is None:
            return StoredPosition(None, None, missing(self.name, self.stream))
        state = self._state(head)
        return StoredPosition(state.raw, state.position, check_table(state) or self._not_writable(head), state)

    def _swap(self, expected: StoredPosition, moved: Position) -> Position:
        """Commit a version with the position alone.

        If another writer commits first and leaves the position unchanged (OPTIMIZE, a second stream), the next version
        is tried.
        """
        for _ in range(SWAP_ATTEMPTS):
            head = log.head(self.folder)
            if head is None:
                raise moved_meanwhile(self.stream, f"table {self.name} no longer exists")
            state = self._state(head)
            if state.raw != expected.raw:
                at = state.position
                now = f"at seq {at.seq}, batch {at.batch} of query {at.query_id or 'none'}" if at else "missing"
                raise moved_meanwhile(self.stream, f"the position is now {now}")
            if (reason := check_table(state) or self._not_writable(head)) is not None:
                raise Refused(
                    f"The position of stream {self.stream} was not moved",
                    why=f"{reason.what}: {reason.why}",
                    next=reason.next,
                    code="LW-3041",
                )
            version = head.version + 1
            stored = moved.model_copy(update={"snapshot": version, "snapshot_seq": version})
            if DeltaLog(self.folder).put(version, self._commit(head, stored)):
                self._read_back(version, stored)
                return stored
        raise Transient(
            f"The position of stream {self.stream} in {self.name} was not set: contention",
            why=f"other writers committed first in each of {SWAP_ATTEMPTS} attempts",
            next="repeat the command",
            code="LW-3038",
        )

    def scan(self) -> Scan:
        table = log.read(self.folder, deletion_vectors=True)  # `log.scan` leaves deleted rows out
        if table is None:
            raise LakewardError(
                f"Delta table {self.name} does not exist",
                why=f"{self.folder} has no Delta log",
                next="lakeward tables health   lists the tables that exist",
                code="LW-3040",
            )
        return log.scan(table)

    @property
    def location(self) -> str | None:
        return str(self.folder)

    def _state(self, head: Head) -> TableState:
        domains = log.domains(self.folder, head.version)
        if domains is None:
            raise DeltaLog(self.folder).unreadable(log.INCOMPLETE)
        raw = domains.get(position.key(self.stream))
        supported = DOMAINS in (head.protocol.get("writerFeatures") or ())
        return state_at(self.folder, head.version, raw, supported, self.stream, self.name, head.properties)

    def _not_writable(self, head: Head) -> BlockReason | None:
        """Why a commit of the position without Spark is not allowed."""
        unknown = unsupported(head)
        if not unknown:
            return None
        return BlockReason(
            "features",
            f"The position of stream {self.stream} in Delta table {self.name} cannot be moved without Spark",
            f"the table has writer features that a commit without Spark does not support: {', '.join(unknown)}",
            "restore the stream's checkpoint from a copy, or give the stream a new id and a new table "
            f"(conf/streams/{self.stream}.yaml), then: lakeward deploy",
            code="LW-3039",
        )

    def _commit(self, head: Head, stored: Position) -> list[dict[str, Any]]:
        domain = {"domain": position.key(self.stream), "configuration": stored.to_json(), "removed": False}
        return [commit_info(OPERATION, head.version, attempt=stored.attempt), {"domainMetadata": domain}]

    def _read_back(self, version: int, stored: Position) -> None:
        """Check that the version was not replaced: a writer without our log store renames over it (ADR 45)."""
        committed = log.commit(self.folder, version)
        if committed is None or committed.domains.get(position.key(self.stream)) != stored.to_json():
            raise moved_meanwhile(self.stream, f"version {version} of {self.name} was overwritten by another process")


def unsupported(head: Head) -> list[str]:
    """The writer features of a table that forbid a commit without Spark, even one that adds no file.

    Delta's protocol forbids a write by a writer that does not support every writer feature of the table.
    """
    unknown = sorted(set(head.protocol.get("writerFeatures") or ()) - INDIFFERENT - {"inCommitTimestamp"})
    if head.properties.get(IN_COMMIT_TIMESTAMPS, "").lower() == "true":
        unknown.append("inCommitTimestamp")
    return unknown


def state_at(
    folder: Folder,
    version: int,
    raw: str | None,
    supported: bool,
    stream: str,
    table: str,
    properties: Mapping[str, str],
) -> TableState:
    """The state of one stream in a table at one version. Its ancestry is read from the log's files.

    Args:
        raw: the position at that version.
        supported: whether the table has the feature `domainMetadata`.
        properties: those of the table that Delta parses; others are not looked at.
    """
    name = position.key(stream)
    parsed = position.parse(raw, stream, table, position.KeptIn.DELTA_LOG) if raw is not None else None
    at = parsed.snapshot if parsed is not None else None
    ancestry_ = log.walk(folder, version, at)
    published = log.commit(folder, at) if at is not None else None
    return TableState(
        stream=stream,
        table=table,
        version=version,
        supported=supported,
        raw=raw,
        position=parsed,
        ancestry=ancestry_,
        intact=published is None or published.domains.get(name) == raw,
        newest_seq=(
            None if ancestry_.right else ancestry.newest_of(stream, version, lambda below: log.link(folder, below))
        ),
        unreadable=stopping(properties, "land"),
    )
