"""A Delta table as a restore reads and moves it: versions of its log, positions and the marker as domain metadata.

`verified` is not stored: it is the newest proof on the table's line, and the commit of the restore continues the line
of its target. So a proof of a removed version does not count any more, without a write (see `quality.delta.table`).
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from lakeward.connectors.commit_protocol.ancestry import Link
from lakeward.connectors.delta import location, log, rollback
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.delta.rollback import TableVersion
from lakeward.connectors.delta.source import history
from lakeward.operations.context import Context
from lakeward.operations.restore.restorable import MARKER, moment_text
from lakeward.platform.errors import SpecError
from lakeward.platform.text import count, word
from lakeward.quality.delta.table import DeltaTable as CheckedTable
from lakeward.registry import verifications
from lakeward.spec.sql.statements import call_name

WITHOUT_ROWS = "replace"
"""The operation of a link whose commit changed no rows, or is a restore of Lakeward: nothing of it is lost."""


def find(context: Context, name: str) -> RestorableDelta | None:
    """The table; None if it does not exist.

    Raises:
        Refused: its log is incomplete.
        DependencyDown: the object store does not answer.
    """
    try:
        folder = location.folder_of(context.runtime.lake, name)
    except SpecError:  # no Delta tables on a store of this kind
        return None
    now = rollback.newest(folder) if location.exists(folder) else None
    return None if now is None else RestorableDelta(name, now)


class RestorableDelta:
    """One table as it was read from its log."""

    format, noun, verified_name = "delta", "version", "`verified`"

    def __init__(self, name: str, now: TableVersion) -> None:
        self.name, self.now = name, now
        self._links: dict[int, Link | None] = {}
        self._states: dict[int, TableVersion] = {now.version: now}

    @property
    def _folder(self) -> Folder:
        return self.now.folder

    @property
    def properties(self) -> Mapping[str, str]:
        return self.now.domains

    @property
    def head(self) -> int | None:
        return self.now.version

    @property
    def history(self) -> str:
        return f"lakeward sql {word(f'DESCRIBE HISTORY {call_name(self.name, location.CATALOG)}')}"

    def look_up(self, snapshot: int) -> Link | None:
        if snapshot not in self._links:
            self._links[snapshot] = self._link(snapshot) if 0 <= snapshot <= self.now.version else None
        return self._links[snapshot]

    def _link(self, version: int) -> Link | None:
        commit = log.commit(self._folder, version)
        if commit is None:
            return None
        added, removed = self._files(version)
        own = commit.operation == "RESTORE" and (commit.attempt or "").startswith("restore/")
        changes = bool(added or removed) and not own
        return Link(
            version, version, commit.parent, commit.operation if changes else WITHOUT_ROWS, commit.attempt,
            commit.attempt, sum(rollback.rows_in_log(add) for add in added),
        )  # fmt: skip

    def _files(self, version: int) -> tuple[list[Mapping[str, object]], int]:
        """The `add` actions that bring rows, and the number of files that were removed with their rows."""
        added: list[Mapping[str, object]] = []
        removed = 0
        for action in DeltaLog(self._folder).actions(version, "add", "remove"):
            ((kind, file),) = action.items()
            if not file.get("dataChange", True):
                continue
            if kind == "add":
                added.append(file)
            else:
                removed += 1
        return added, removed

    def moment(self, snapshot: int) -> str:
        commit = log.commit(self._folder, snapshot)
        return "at an unknown time" if commit is None else moment_text(commit.at_ms)

    def records(self, snapshot: int | None) -> int:
        return 0 if snapshot is None else self._state(snapshot).rows

    def effect(self, snapshot: int) -> str:
        added, removed = self._files(snapshot)
        rows = sum(rollback.rows_in_log(add) for add in added)
        return f"{count(len(added), 'file')} with {count(rows, 'row')} added, {count(removed, 'file')} removed"

    def _state(self, version: int) -> TableVersion:
        if version not in self._states:
            self._states[version] = rollback.at_version(self._folder, version)
        return self._states[version]

    def check(self, to: int) -> None:
        rollback.check(self.name, self.now, self._state(to))

    def moved(self, to: int) -> dict[str, int]:
        """The position is in the version of the restore itself, as that of a batch is in its own."""
        version = self.now.version + 1
        return {"snapshot": version, "snapshot_seq": version}

    def verified(self, connection: Connection) -> int | None:
        now, _ = CheckedTable(self.name, self._folder).look(verifications.proofs(connection, self.name))
        return now.verified

    def proven(self, connection: Connection) -> set[int]:
        own = str(self.now.metadata.get("id"))
        return {
            verifications.head_of(row)
            for row in verifications.proofs(connection, self.name)
            if (row["to_commit"] or "").partition("/")[0] == own
        }

    def read_up_to(self, offset: str) -> int | None:
        at = history.parse(offset)
        if at is None:
            return None
        return at.version if at.whole or at.index >= 0 else at.version - 1

    def move(self, to: int, properties: Mapping[str, str | None], verified: int | None, attempt: str) -> None:
        rollback.move(self.name, self.now, self._state(to), properties, attempt)

    def forget(self, marker: str) -> None:
        rollback.forget(self.name, self._folder, MARKER, marker)
