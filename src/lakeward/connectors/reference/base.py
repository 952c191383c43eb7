"""What every kind of reference can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Reader(Protocol):
    """Reads one reference."""

    def version(self, session: SparkSession) -> str:
        """A text that changes when the reference's content or its columns do, found without reading the content.

        Raises:
            SpecError: there is no such file or table.
            DependencyDown: it cannot be asked now.
        """
        ...

    def read(self, session: SparkSession, version: str) -> DataFrame:
        """Its rows: of a table those of that version, whatever is committed meanwhile; of files those of now.

        Raises:
            SpecError: as above, or its columns are not those that are declared.
        """
        ...
