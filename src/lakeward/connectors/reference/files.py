"""Reference tables in local files: a CSV file, a Parquet file, or a folder of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.spec.model.sources import Reference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class FilesReference:
    """A `csv` or `parquet` reference. Its version is a hash over the names, sizes and times of the files."""

    name: str
    spec: Reference

    @property
    def _path(self) -> str:
        return str(self.spec.csv or self.spec.parquet)

    def version(self, session: SparkSession) -> str:
        if "://" in self._path:
            return ""
        self._must_exist()
        digest = hashlib.sha256()
        root = Path(self._path)
        for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
            stat = file.stat()
            digest.update(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def read(self, session: SparkSession, version: str) -> DataFrame:
        self._must_exist()
        if self.spec.parquet is not None:
            return session.read.parquet(self.spec.parquet)
        reader = session.read.option("header", "true").option("mode", "FAILFAST").option("enforceSchema", "false")
        if self.spec.nulls is not None:
            reader = reader.option("nullValue", self.spec.nulls)
        if self.spec.columns:
            reader = reader.schema(self.spec.columns)
        return reader.csv(self._path)

    def _must_exist(self) -> None:
        if "://" in self._path:
            return
        try:
            Path(self._path).stat()
        except FileNotFoundError:
            raise SpecError(
                f"The file of reference {self.name} does not exist",
                why=f"there is no {self._path}",
                next="correct its path, then: lakeward deploy",
                code="LW-3163",
            ) from None
        except OSError as error:
            raise DependencyDown(
                f"Cannot read reference {self.name}",
                why=f"{self._path}: {error.strerror}",
                next="make the path readable; the stream retries by itself",
                code="LW-3164",
            ) from None
