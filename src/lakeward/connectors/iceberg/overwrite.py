"""Overwrite of a range of rows in one commit, while other writers land in the same table.

One append is staged: the new rows, and the rows outside the range of every file that has rows of the range. The
publication removes those files and adds the staged ones, as one overwrite with the position. Iceberg validates that no
other writer changed the removed files or the range since they were read. Rows added outside the range, and compaction
of other files, do not conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.iceberg import jvm as java
from lakeward.connectors.iceberg import publish
from lakeward.connectors.iceberg.check import TableState
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.connectors.iceberg.stage import Staged
from lakeward.connectors.iceberg.writer import IcebergWriter, InTable
from lakeward.platform.errors import expect
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FILE = "_file"
_BOUNDED = ("int", "long", "timestamptz")
"""Column types whose bounds Iceberg stores without truncation."""


class Covers(Protocol):
    """A range of rows, given by their values."""

    @property
    def column(self) -> str:
        """The column by which files are selected; rows where it is null are never in the range."""
        ...

    def condition(self) -> Column:
        """True for a row in the range; false or null for others."""
        ...

    def expression(self, jvm: Any) -> Any:
        """The condition as Iceberg's expression, or a wider one that contains the whole range."""
        ...

    def check_replaceable(self, metadata: Any) -> None:
        """Check again, in the publishing transaction, that the range may be replaced.

        Raises:
            Refused: it may not.
        """
        ...


@dataclass(frozen=True)
class _Base:
    """The base of a replacement: a snapshot, and its files that have rows of the range (Java's data files)."""

    snapshot: int | None
    files: tuple[Any, ...] = ()


@dataclass
class OverwriteWriter(IcebergWriter):
    """Lands batches, each in place of the rows that `covers` selects. The caller sets `covers` before each batch."""

    covers: Covers | None = None
    pinned: int | None = None
    """The base snapshot, if exactly the rows read from it must be replaced; None: main's head at staging."""
    _bases: dict[str, _Base] = field(default_factory=dict, init=False, repr=False)

    def stage(self, rows: DataFrame, state: TableState, attempt: str) -> InTable:
        """Stage the new rows and the rows that stay; `rows` of the result counts the new ones.

        Raises:
            RetryCommit: as the base class, or the number of written rows differs from the count.
        """
        session = rows.sparkSession
        base = self._base(session)
        remaining = self._remaining(session, base)
        batch = rows.persist()
        try:
            new, stay = batch.count(), 0 if remaining is None else remaining.count()
            staged = super().stage(batch if remaining is None else batch.unionByName(remaining), state, attempt)
        finally:
            batch.unpersist()
        if staged.rows != new + stay:
            raise RetryCommit(f"staging: {staged.rows} rows were written, but {new} new and {stay} old were counted")
        self._bases = {attempt: base}
        return replace(staged, rows=new)

    def take(self, transaction: Any, staged: Staged) -> Any:
        """Remove the files of the base and add the staged ones.

        Raises:
            StagedGone: the staged snapshot is missing.
            Refused: the range may not be replaced any more.
        """
        start = transaction.startMetadata()
        publish.still_staged(start, staged)
        covers, base = self._covers, self._bases[staged.attempt]
        covers.check_replaceable(start)
        published = publish.is_on_main(start, staged)
        change = transaction.newOverwrite()
        if base.snapshot is not None:
            change.validateFromSnapshot(staged.snapshot if published else base.snapshot)
        change.conflictDetectionFilter(covers.expression(self._jvm))
        change.validateNoConflictingData()
        change.validateNoConflictingDeletes()
        for file in base.files:
            change.deleteFile(file)
        if not published:
            io = staged_io(transaction)
            for file in _iterate(start.snapshot(staged.snapshot).addedDataFiles(io)):
                change.addFile(file)
        # A cherry-pick sets these too: expiry then knows that the files of the staged snapshot are main's.
        change.set("published-wap-id", staged.attempt)
        change.set("source-snapshot-id", str(staged.snapshot))
        change.commit()
        return transaction.currentMetadata().currentSnapshot()

    @property
    def _covers(self) -> Covers:
        return expect(self.covers, "the range to replace, which is set before each batch")

    @property
    def _jvm(self) -> Any:
        return self.session._jvm

    def _base(self, session: SparkSession) -> _Base:
        """The base snapshot, and its files that have rows of the range."""
        table = java.load(session, self.table)
        head = table.currentSnapshot() if self.pinned is None else table.snapshot(self.pinned)
        if head is None:
            if self.pinned is not None:
                raise RetryCommit(f"reading: snapshot {self.pinned} is missing")
            return _Base(None)
        snapshot = head.snapshotId()
        rows = self._at(session, snapshot)
        named = {row[0] for row in rows.where(self._covers.condition()).select(_FILE).distinct().collect()}
        scan = table.newScan().useSnapshot(snapshot).filter(self._covers.expression(self._jvm)).includeColumnStats()
        tasks = scan.planFiles()
        try:
            files = {task.file().location(): task.file() for task in _iterate(tasks)}
        finally:
            tasks.close()
        if not named <= set(files):
            raise RetryCommit(
                f"reading: {len(named - set(files))} files with rows of the range are not in Iceberg's plan"
            )
        return _Base(snapshot, tuple(files[name] for name in sorted(named)))

    def _remaining(self, session: SparkSession, base: _Base) -> DataFrame | None:
        """The rows of the base's files that are outside the range; None if there are none."""
        from pyspark.sql import functions as F

        if not base.files or base.snapshot is None:
            return None
        rows = self._at(session, base.snapshot)
        names = [file.location() for file in base.files]
        outside = rows.where(F.col(_FILE).isin(names)).where(~F.coalesce(self._covers.condition(), F.lit(False)))
        return outside.where(self._bounds(base)).drop(_FILE)

    def _bounds(self, base: _Base) -> Column:
        """A condition that holds for every row of the base's files, by their bounds: it prunes other files."""
        from pyspark.sql import functions as F

        name = self._covers.column
        column = java.load(self.session, self.table).schema().findField(name)
        conversions = self._jvm.org.apache.iceberg.types.Conversions
        kind = str(column.type())

        def value(bound: int) -> Column:
            """A bound from Java as a Spark literal."""
            return F.timestamp_micros(F.lit(bound)) if kind == "timestamptz" else F.lit(bound)

        lows, highs = [], []
        for file in base.files:
            low, high = (bounds and bounds.get(column.fieldId()) for bounds in (file.lowerBounds(), file.upperBounds()))
            if low is None or high is None or kind not in _BOUNDED:
                return F.lit(True)
            lows.append(conversions.fromByteBuffer(column.type(), low))
            highs.append(conversions.fromByteBuffer(column.type(), high))
        return F.col(name).between(value(min(lows)), value(max(highs))) | F.col(name).isNull()

    def _at(self, session: SparkSession, snapshot: int) -> DataFrame:
        table = in_lake(session, self.table)
        return session.sql(f"SELECT *, {quote(_FILE)} FROM {table} VERSION AS OF {snapshot:d}")  # noqa: S608  # every name is quoted


def staged_io(transaction: Any) -> Any:
    """The FileIO that reads the manifests of a transaction's table."""
    return transaction.underlyingOps().io()


def _iterate(iterable: Any) -> Iterator[Any]:
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()
