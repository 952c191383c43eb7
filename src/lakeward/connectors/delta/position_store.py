"""The position of a stream in a Delta table: domain metadata, moved without Spark by the next version of the log.

A version is taken once, by a hard link (ADR 45), so the version after the one that was read is the compare-and-set.
The commit has no rows: `commitInfo` and the domain, as the writer of a batch commits them (ADR 22).
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from pathlib import Path
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
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.log import Head
from lakeward.platform.errors import LakewardError, Refused, Transient

OPERATION = "LAKEWARD MOVE POSITION"
"""What `DESCRIBE HISTORY` calls the commit."""

_HARMLESS = frozenset({
    DOMAINS, "appendOnly", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults",
    "changeDataFeed", "identityColumns", "columnMapping", "deletionVectors", "timestampNtz", "clustering",
    "rowTracking", "typeWidening", "typeWidening-preview", "variantType", "variantType-preview", "icebergCompatV1",
    "icebergCompatV2", "v2Checkpoint", "vacuumProtocolCheck", "checkpointProtection",
})  # fmt: skip
"""Writer features that ask nothing of a commit which adds no file and changes no column."""
_STAMPED = "delta.enableInCommitTimestamps"


@dataclass(frozen=True)
class DeltaPositionStore(PositionStore):
    """The position of one stream in one Delta table in a folder of this machine."""

    folder: Path
    name: str
    stream: str

    def read(self) -> StoredPosition:
        """The newest version of the log."""
        head = log.head(self.folder)
        if head is None:
            return StoredPosition(None, None, missing(self.name, self.stream))
        state = self._state(head)
        return StoredPosition(state.raw, state.position, check_table(state) or self._not_writable(head), state)

    def _swap(self, expected: StoredPosition, moved: Position) -> Position:
        """One version with the position alone. Another writer's version that leaves the position as it is (OPTIMIZE, a
        second stream) is no reason to give up: the version after it is taken."""
        for _ in range(SWAP_ATTEMPTS):
            head = log.head(self.folder)
            if head is None:
                raise moved_meanwhile(self.stream, f"table {self.name} is gone")
            state = self._state(head)
            if state.raw != expected.raw:
                at = state.position
                why = f"now at seq {at.seq}, batch {at.batch} of query {at.query_id or 'none'}" if at else "it is gone"
                raise moved_meanwhile(self.stream, why)
            if (halt := check_table(state) or self._not_writable(head)) is not None:
                raise Refused(
                    f"The position of stream {self.stream} was not moved",
                    why=f"{halt.what}: {halt.why}",
                    next=halt.next,
                    code="LW-3041",
                )
            version = head.version + 1
            stored = moved.model_copy(update={"snapshot": version, "snapshot_seq": version})
            if DeltaLog(self.folder).put(version, self._commit(head, stored)):
                self._read_back(version, stored)
                return stored
        raise Transient(
            f"The position of stream {self.stream} could not be set in {self.name}: contention", code="LW-3038"
        )

    def scan(self) -> Scan:
        table = log.read(self.folder)
        if table is None:
            raise LakewardError(
                f"Delta table {self.name} does not exist", why=f"there is none in {self.folder}", code="LW-3040"
            )
        return log.scan(table)

    @property
    def location(self) -> str | None:
        return str(self.folder)

    def _state(self, head: Head) -> TableState:
        kept = log.domains(self.folder, head.version)
        if kept is None:
            raise DeltaLog(self.folder).unreadable("its log begins with a checkpoint of a newer form, or has a hole")
        keeps = DOMAINS in (head.protocol.get("writerFeatures") or ())
        return state_at(self.folder, head.version, kept.get(position.key(self.stream)), keeps, self.stream, self.name)

    def _not_writable(self, head: Head) -> BlockReason | None:
        """The protocol's rule: whoever does not know every writer feature of a table must not write it."""
        unknown = sorted(set(head.protocol.get("writerFeatures") or ()) - _HARMLESS - {"inCommitTimestamp"})
        if head.properties.get(_STAMPED, "").lower() == "true":
            unknown.append("inCommitTimestamp")
        if not unknown:
            return None
        return BlockReason(
            "features",
            f"The position in Delta table {self.name} is moved by batches alone",
            f"it has writer features that a commit without Spark does not serve: {', '.join(unknown)}",
            "put the checkpoint back from a copy, or land into a new table under a new id",
            code="LW-3039",
        )

    def _commit(self, head: Head, stored: Position) -> list[dict[str, Any]]:
        about = {
            "timestamp": int(time.time() * 1000),
            "operation": OPERATION,
            "operationParameters": {},
            "readVersion": head.version,
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "operationMetrics": {},
            "userMetadata": stored.attempt,
            "engineInfo": "Lakeward",
            "txnId": str(uuid.uuid4()),
        }
        domain = {"domain": position.key(self.stream), "configuration": stored.to_json(), "removed": False}
        return [{"commitInfo": about}, {"domainMetadata": domain}]

    def _read_back(self, version: int, stored: Position) -> None:
        """A writer without our log store renames over a version that is there (ADR 45)."""
        found = log.commit(self.folder, version)
        if found is None or found.domains.get(position.key(self.stream)) != stored.to_json():
            raise moved_meanwhile(self.stream, f"version {version} of {self.name} was overwritten by another process")


def state_at(folder: Path, version: int, raw: str | None, keeps: bool, stream: str, table: str) -> TableState:
    """All facts about one stream at one version, its history from the log's files.

    Args:
        raw: the position as the version has it.
        keeps: whether the table has the feature of domain metadata.
    """
    name = position.key(stream)
    parsed = position.parse(raw, stream, table) if raw is not None else None
    at = parsed.snapshot if parsed is not None else None
    walked = log.walk(folder, version, at)
    published = log.commit(folder, at) if at is not None else None
    return TableState(
        stream=stream,
        table=table,
        version=version,
        keeps=keeps,
        raw=raw,
        position=parsed,
        ancestry=walked,
        intact=published is None or published.domains.get(name) == raw,
        newest_seq=None if walked.right else ancestry.newest_of(stream, version, lambda below: log.link(folder, below)),
    )
