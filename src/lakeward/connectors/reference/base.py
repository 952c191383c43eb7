"""Interface of a reference table reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Reader(Protocol):
    """Reads one reference table."""

    def version(self, session: SparkSession) -> str:
        """A text that changes when the content or the columns change; the rows are not transferred to determine it.

        Raises:
            SpecError: the file or table does not exist.
            DependencyDown: it cannot be reached now.
        """
        ...

    def read(self, session: SparkSession, version: str) -> DataFrame:
        """The rows: of a lake table those of this version, regardless of later commits; otherwise the present ones.

        Raises:
            SpecError: as above, or the columns differ from the declared ones.
        """
        ...
