"""Rows put in the place of those of a range, in one commit, beside whoever else lands in the table.

What is staged is one append: the new rows, and with them the other rows of every file that has rows of the range. The
publication takes those files out and puts the staged ones in, as one overwrite with the position. Iceberg itself
proves that nobody else has touched what it rests on since it was read: neither the files that go nor the range. Rows
that were added beside the range meanwhile, and any compaction of other files, stand in nobody's way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.iceberg import jvm as java
from lakeward.connectors.iceberg import publish
from lakeward.connectors.iceberg.check import TableState
from lakeward.connectors.iceberg.stage import Staged
from lakeward.connectors.iceberg.writer import IcebergWriter, InTable
from lakeward.platform.errors import expect
from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.statements import quote, quote_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FILE = "_file"
_BOUNDED = ("int", "long", "timestamptz")
"""Types of a column whose bounds Iceberg keeps whole."""


class Covers(Protocol):
    """A range of rows, by the values they have."""

    @property
    def column(self) -> str:
        """The column that files are chosen by; rows where it is null are never of the range."""
        ...

    def condition(self) -> Column:
        """True for a row of the range; anything else for others."""
        ...

    def expression(self, jvm: Any) -> Any:
        """The same, or wider, as Iceberg's expression: no row of the range is outside of it."""
        ...

    def standing(self, metadata: Any) -> None:
        """Look at the table once more, in the transaction that publishes.

        Raises:
            Refused: the range may not be replaced any more.
        """
        ...


@dataclass(frozen=True)
class _Base:
    """What a replacement rests on: a snapshot, and its files that have rows of the range (Java's data files)."""

    snapshot: int | None
    files: tuple[Any, ...] = ()


@dataclass
class OverwriteWriter(IcebergWriter):
    """Lands batches, each in the place of the rows that `covers` names. `covers` is set before each."""

    covers: Covers | None = None
    pinned: int | None = None
    """The snapshot to rest on, where what was read of it has to be exactly what goes; else the head as it is staged."""
    _bases: dict[str, _Base] = field(default_factory=dict, init=False, repr=False)

    def stage(self, rows: DataFrame, state: TableState, attempt: str) -> InTable:
        """The new rows and those that stay; `rows` of the answer are the new ones.

        Raises:
            Redo: also where other rows were written than those that were counted.
        """
        session = rows.sparkSession
        base = self._base(session)
        kept = self._staying(session, base)
        held = rows.persist()
        try:
            new, stay = held.count(), 0 if kept is None else kept.count()
            staged = super().stage(held if kept is None else held.unionByName(kept), state, attempt)
        finally:
            held.unpersist()
        if staged.rows != new + stay:
            raise RetryCommit(
                f"staging: {staged.rows} rows were written, {new} new ones and {stay} that stay were counted"
            )
        self._bases = {attempt: base}
        return replace(staged, rows=new)

    def take(self, transaction: Any, staged: Staged) -> Any:
        """Take the files of the base out and put the staged ones in.

        Raises:
            StagedGone, Refused: see there.
        """
        start = transaction.startMetadata()
        publish.still_staged(start, staged)
        covers, base = self._aimed, self._bases[staged.attempt]
        covers.standing(start)
        there = publish.there_already(start, staged)
        change = transaction.newOverwrite()
        if base.snapshot is not None:
            change.validateFromSnapshot(staged.snapshot if there else base.snapshot)
        change.conflictDetectionFilter(covers.expression(self._jvm))
        change.validateNoConflictingData()
        change.validateNoConflictingDeletes()
        for each in base.files:
            change.deleteFile(each)
        if not there:
            io = staged_io(transaction)
            for each in _each(start.snapshot(staged.snapshot).addedDataFiles(io)):
                change.addFile(each)
        # As a cherry-pick notes it: expiry then knows that the files of the staged snapshot are main's.
        change.set("published-wap-id", staged.attempt)
        change.set("source-snapshot-id", str(staged.snapshot))
        change.commit()
        return transaction.currentMetadata().currentSnapshot()

    @property
    def _aimed(self) -> Covers:
        return expect(self.covers, "the range to replace: it is set before each batch")

    @property
    def _jvm(self) -> Any:
        return self.session._jvm

    def _base(self, session: SparkSession) -> _Base:
        """The head, and which of its files have rows of the range."""
        table = java.load(session, self.table)
        head = table.currentSnapshot() if self.pinned is None else table.snapshot(self.pinned)
        if head is None:
            if self.pinned is not None:
                raise RetryCommit(f"reading: snapshot {self.pinned} is gone")
            return _Base(None)
        snapshot = head.snapshotId()
        whole = self._at(session, snapshot)
        named = {row[0] for row in whole.where(self._aimed.condition()).select(_FILE).distinct().collect()}
        scan = table.newScan().useSnapshot(snapshot).filter(self._aimed.expression(self._jvm)).includeColumnStats()
        tasks = scan.planFiles()
        try:
            files = {task.file().location(): task.file() for task in _each(tasks)}
        finally:
            tasks.close()
        if not named <= set(files):
            raise RetryCommit(
                f"reading: {len(named - set(files))} files with rows of the range are not in Iceberg's plan"
            )
        return _Base(snapshot, tuple(files[name] for name in sorted(named)))

    def _staying(self, session: SparkSession, base: _Base) -> DataFrame | None:
        """The rows of the base's files that are none of the range."""
        from pyspark.sql import functions as F

        if not base.files or base.snapshot is None:
            return None
        rows = self._at(session, base.snapshot)
        names = [each.location() for each in base.files]
        mine = rows.where(F.col(_FILE).isin(names)).where(~F.coalesce(self._aimed.condition(), F.lit(False)))
        return mine.where(self._near(base)).drop(_FILE)

    def _near(self, base: _Base) -> Column:
        """What is true of every row of the base's files, by their own bounds: a scan leaves other files out by it."""
        from pyspark.sql import functions as F

        name = self._aimed.column
        found = java.load(self.session, self.table).schema().findField(name)
        of = self._jvm.org.apache.iceberg.types.Conversions
        kind = str(found.type())

        def value(bound: int) -> Column:
            """A bound, as Java gives it, as a value of Spark."""
            return F.timestamp_micros(F.lit(bound)) if kind == "timestamptz" else F.lit(bound)

        lows, highs = [], []
        for each in base.files:
            low, high = (bounds and bounds.get(found.fieldId()) for bounds in (each.lowerBounds(), each.upperBounds()))
            if low is None or high is None or kind not in _BOUNDED:
                return F.lit(True)
            lows.append(of.fromByteBuffer(found.type(), low))
            highs.append(of.fromByteBuffer(found.type(), high))
        return F.col(name).between(value(min(lows)), value(max(highs))) | F.col(name).isNull()

    def _at(self, session: SparkSession, snapshot: int) -> DataFrame:
        table = quote_table(self.table, CATALOG)
        return session.sql(f"SELECT *, {quote(_FILE)} FROM {table} VERSION AS OF {snapshot:d}")  # noqa: S608  # every name is quoted


def staged_io(transaction: Any) -> Any:
    """What reads the manifests of a transaction's table."""
    return transaction.underlyingOps().io()


def _each(iterable: Any) -> Iterator[Any]:
    found = iterable.iterator()
    while found.hasNext():
        yield found.next()
