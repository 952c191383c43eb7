"""A Delta table in a check run: its versions, and the rows of some of them.

A Delta table has no branch `verified`. The verified version is the newest recorded proof on the table's current line,
derived from the registry and the log on each read. It is therefore never behind its proofs, and a proof of a replaced
table never counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from lakeward.connectors.delta import log
from lakeward.connectors.delta.folder import Folder
from lakeward.platform.errors import LakewardError, expect, expect_type
from lakeward.platform.text import word
from lakeward.quality.delta import frames, stats
from lakeward.quality.delta.commits import Commits
from lakeward.quality.publishing.verified import Move
from lakeward.quality.ranges.file_statistics import FileStatistics
from lakeward.quality.ranges.range import Range, Read, changes_rows, decide
from lakeward.quality.ranges.snapshot_chain import Cut, History, Mark, Snapshot
from lakeward.registry import verifications
from lakeward.registry.verifications import Verification

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

Proofs = Sequence[Verification]
"""Columns of `registry.schema.verifications`, of runs that proved their head."""


class DeltaTable:
    """One table as of the last call of `look`.

    Args:
        name: `namespace.table`.
        folder: the table's folder.
    """

    def __init__(self, name: str, folder: Folder) -> None:
        self.name, self.folder = name, folder
        self._history: History | None = None

    def look(self, proofs: Proofs, upto: int | None = None) -> tuple[History, Range]:
        """The versions in its log, and the range that is not proven.

        Args:
            proofs: the recorded ones.
            upto: the last version of the range, if it exists and is not proven yet; None: the newest.

        Raises:
            Refused: only Spark can read its log.
            LakewardError: the table does not exist.
        """
        head = log.head(self.folder)
        if head is None:
            raise LakewardError(
                f"Table {self.name} does not exist",
                why=f"The folder {self.folder} has no Delta log.",
                next="lakeward tables health",
                code="LW-5002",
            )
        commits = Commits(head)
        history = History(self.name, head.version, None, commits, noun="version")
        marks, foreign = _marks(commits, proofs)
        proven = decide(history, marks).base
        self._history = replace(history, verified=proven.snapshot if proven else None).up_to(upto)
        found = decide(self._history, marks)
        if not marks and foreign is not None:
            why = f"the table was replaced since verified version {foreign}: the whole table"
            found = replace(found, why=why, cut=Cut.REPLACED)
        return self._history, found

    def rows(self, session: SparkSession, read: Read) -> DataFrame:
        """The rows of `read`: appended after its start up to its end, or the whole table at its end."""
        head = self._commits.head
        if read.start is None:
            return frames.whole(session, head, read.end)
        return frames.of_files(session, head, [add for each in self._line(read) for add in self._commits.adds(each.id)])

    def footers(self, read: Read, appends: Sequence[Snapshot]) -> FileStatistics | None:
        """Statistics from the log about the rows of `read`; None when they would not be exact."""
        head = self._commits.head
        if read.start is not None:
            return stats.file_statistics(head, [add for append in appends for add in self._commits.adds(append.id)])
        return stats.file_statistics(head, log.live(head) or ()) if read.end == head.version else None

    def move(
        self, session: Callable[[], SparkSession], decide: Callable[[History], Move], proofs: Callable[[], Proofs]
    ) -> tuple[Move, int | None]:
        """Decide where `verified` goes, on fresh metadata. Nothing is written: the recorded proof moves it.

        Args:
            session: not needed.
            decide: the decision on the fresh history.
            proofs: the proofs of other runs.
        """
        now, _ = self.look(proofs())
        decided = decide(now)
        return decided, now.verified if decided.to is None else decided.to

    @property
    def _looked(self) -> History:
        return expect(self._history, "the history: `look` comes first")

    @property
    def _commits(self) -> Commits:
        return expect_type(self._looked.snapshots, Commits, "the versions")

    def _line(self, read: Read) -> list[Snapshot]:
        """The versions after the start, up to the end, oldest first; appends and compactions only.

        Raises:
            LakewardError: another kind of commit is among them; reading added files alone would miss rows.
        """
        line = list(takewhile(lambda snapshot: snapshot.id != read.start, self._looked.ancestry(read.end)))[::-1]
        why = changes_rows(line, None)
        if line and line[0].parent != read.start:
            why = f"version {read.start} is not below version {read.end}"
        if why is not None:
            raise LakewardError(
                f"Cannot read the rows of {self.name} that were added after version {read.start}",
                why=why,
                next=f"lakeward quality run {word(self.name)}",
                code="LW-5003",
            )
        return line


def _marks(commits: Commits, proofs: Proofs) -> tuple[list[Mark], int | None]:
    """The proofs of this very table, newest version first, and a version proven of a table that it replaced."""
    own_marks: list[Mark] = []
    foreign: int | None = None
    for proof in proofs:
        version = verifications.head_of(proof)
        recorded = commits.get(version)
        of, _, _ = (proof["to_commit"] or "").partition("/")
        if of == commits.head.table_id and (recorded is None or recorded.commit == proof["to_commit"]):
            own_marks.append(Mark(version, version))
        elif foreign is None:
            foreign = version
    return sorted(own_marks, key=lambda mark: -mark.snapshot), foreign


def verified_proof(name: str, folder: Folder, proofs: Proofs) -> Verification | None:
    """The proof that readers of a table may rely on now; None if no version on its line is proven.

    Args:
        name, folder: of the table.
        proofs: the recorded ones, newest run first.
    """
    try:
        history, _ = DeltaTable(name, folder).look(proofs)
    except LakewardError:
        return None  # missing, or its log cannot be read
    return proof_of(history, proofs)


def proof_of(history: History, proofs: Proofs) -> Verification | None:
    """The proof of the verified version; None when there is none."""
    recorded = history.snapshots.get(history.verified) if history.verified is not None else None
    return next(
        (
            proof
            for proof in proofs
            if proof["to_snapshot"] == history.verified and (recorded is None or proof["to_commit"] == recorded.commit)
        ),
        None,
    )
