"""What differs between the kinds of catalogs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from lakeward.platform.runtime import Lake


class Kind(Protocol):
    """One kind of catalog. Properties of `Lake.properties` override what it returns."""

    def spark(self, lake: Lake) -> dict[str, str]:
        """The properties of Spark's catalog, without secrets."""

    def pyiceberg(self, lake: Lake, pgpass: Path | None) -> dict[str, Any]:
        """The properties for `pyiceberg.catalog.load_catalog`.

        Args:
            pgpass: `Runtime.pgpass`.
        """

    def libraries(self, lake: Lake) -> list[Path]:
        """Lakeward's own jars that the catalog needs on the class path of the JVM."""

    def reads_s3(self, lake: Lake) -> bool:
        """Whether tables can be on S3, whatever the store of the deployment is."""

    def state(self, lake: Lake, pgpass: Path | None) -> str | None:
        """A text that is another one after every commit to any table; None if only the tables themselves tell.

        Raises:
            DependencyDown: the catalog does not answer.
        """

    def create_schema(self, lake: Lake, pgpass: Path | None) -> None:
        """Create what the stack has to create in the catalog's database; safe to repeat."""
