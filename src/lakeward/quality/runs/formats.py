"""The table formats of a check run (Iceberg, Delta): observe the table, read its rows, move `verified`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from lakeward.connectors.delta import location
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.quality.delta.table import DeltaTable
from lakeward.quality.publishing import verified
from lakeward.quality.ranges import file_statistics as footers
from lakeward.quality.ranges import frames, metadata
from lakeward.quality.ranges.range import Range, Read, decide
from lakeward.quality.ranges.snapshot_chain import History, Mark, Snapshot
from lakeward.registry import verifications
from lakeward.registry.verifications import Verification
from lakeward.spec.sql.names import name_parts

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

    from lakeward.platform.runtime import Lake
    from lakeward.quality.runs.engines import Engines

Proofs = Sequence[Verification]
"""Columns of `registry.schema.verifications`, for runs that proved their head, newest first."""


class LakeTable(Protocol):
    """One table of the lake, of any format."""

    name: str

    def look(self, proofs: Proofs, upto: int | None = None) -> tuple[History, Range]:
        """Its current metadata, and the range that is not proven.

        Args:
            proofs: the recorded proofs.
            upto: the last snapshot of the range, if it exists and is not proven yet; None: the head.

        Raises:
            LakewardError: the table does not exist, or its metadata cannot be read.
        """

    def rows(self, session: SparkSession, read: Read) -> DataFrame:
        """The rows of `read`: appended after its start up to its end, or the whole table at its end."""

    def footers(self, read: Read, appends: Sequence[Snapshot]) -> footers.FileStatistics | None:
        """File statistics of the rows of `read`; None when they would not be exact."""

    def move(
        self,
        session: Callable[[], SparkSession],
        decide: Callable[[History], verified.Move],
        proofs: Callable[[], Proofs],
    ) -> tuple[verified.Move, int | None]:
        """Decide on fresh metadata where `verified` goes, and move it: the decision, and the verified snapshot after
        it."""


class IcebergTable:
    """An Iceberg table of the lake's catalog."""

    def __init__(self, name: str, lake: Catalog) -> None:
        self.name, self._lake = name, lake

    def look(self, proofs: Proofs, upto: int | None = None) -> tuple[History, Range]:
        """As `LakeTable`."""
        history = metadata.history(self._lake, self.name).up_to(upto)
        return history, decide(history, marks(proofs))

    def rows(self, session: SparkSession, read: Read) -> DataFrame:
        """As `LakeTable`."""
        return frames.rows(session, self.name, read)

    def footers(self, read: Read, appends: Sequence[Snapshot]) -> footers.FileStatistics | None:
        """As `LakeTable`."""
        return footers.file_statistics(metadata.load(self._lake, self.name), read, appends)

    def move(
        self,
        session: Callable[[], SparkSession],
        decide: Callable[[History], verified.Move],
        proofs: Callable[[], Proofs],
    ) -> tuple[verified.Move, int | None]:
        """As `LakeTable`; `verified` is a branch."""
        return verified.move(session(), self._lake, self.name, decide)


def marks(proofs: Proofs) -> list[Mark]:
    """The proven snapshots of an Iceberg table, newest run first."""
    return [Mark(verifications.head_of(proof), proof["to_sequence"]) for proof in proofs]


def of(name: str, lake: Catalog, where: Lake) -> LakeTable:
    """The table of that name. A table that is in the catalog is Iceberg's; `look` raises if there is none.

    Args:
        name: `namespace.table`.
        lake, where: the catalog, and the location of Delta tables.
    """
    if (
        location.warehouse(where) is not None
        and location.exists(location.folder_of(where, name))
        and not lake.table_exists(name_parts(name))
    ):
        return DeltaTable(name, location.folder_of(where, name))
    return IcebergTable(name, lake)


def current(name: str, engines: Engines) -> DataFrame:
    """Another table of the lake, in its current state."""
    reader: Any = engines.session.read  # Connect's stubs say classic frames come out
    found = of(name, engines.lake, engines.runtime.lake)
    if isinstance(found, DeltaTable):
        return cast("DataFrame", reader.format("delta").load(str(found.folder)))
    return cast("DataFrame", reader.table(in_lake(engines.session, name)))
