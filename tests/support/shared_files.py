"""A lake of tables that share files: PyIceberg, a real registry, maintenance by its entry points, no engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.connectors.iceberg.catalog import create_schema
from lakeward.platform import private
from lakeward.platform.runtime import Lake, Project, Runtime
from lakeward.registry.engine import engine
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard import pins
from lakeward.telemetry import failpoints

MONTH_S = 30 * 86400
SCHEMA = pa.schema([pa.field("id", pa.int64())])
POLICIES = """
policies:
  - {{match: '*.*', maintain: true, orphans: {{max_share: 0.9}}, tags: {{enabled: false}}}}
unsafe:
  - match: '*.*'
    why: tables of a few rows
    expire: {{older_than: 1ms, min_snapshots: 1, every: 0s, outside_files: {outside}}}
"""


def rows(*ids: int) -> pa.Table:
    """Rows with these ids."""
    return pa.table({"id": list(ids)}, schema=SCHEMA)


@contextmanager
def deployment(postgres: Any, folder: Path, lake: Lake | None = None) -> Iterator[Runtime]:
    """A catalog, a registry and a warehouse on a disk.

    Args:
        lake: a catalog and a warehouse elsewhere.
    """
    if lake is None:
        lake = Lake(
            host=postgres.host, port=postgres.port, database=postgres.create_database(), user=postgres.user,
            warehouse=str(folder / "warehouse"),
        )  # fmt: skip
    create_schema(lake, postgres.pgpass)
    registry = postgres.create_registry()
    file = private.write(folder / "url", postgres.url(registry))
    (folder / "drivers").mkdir()
    yield Runtime(
        registry_url_file=file, pgpass=postgres.pgpass, lake=lake, checkpoints=str(folder / "checkpoints"),
        drivers=folder / "drivers", jars=folder / "jars",
    )  # fmt: skip
    engine(postgres.url(registry), postgres.pgpass).dispose()


@dataclass
class SharedLake:
    """The tables of one test and a project with a policy.

    Attributes:
        outside: `expire.outside_files` of every table.
        made: the tables, in the order they were made.
    """

    runtime: Runtime
    project: Project
    outside: str = "refuse"
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.project.tables_file.parent.mkdir(parents=True, exist_ok=True)
        self.policy(self.outside)

    def policy(self, outside: str) -> None:
        """Set `expire.outside_files`."""
        self.project.tables_file.write_text(POLICIES.format(outside=outside))
        self.site = MaintenanceContext.of(self.runtime, self.project)

    def table(self, *commits: pa.Table, space: str = "shared", location: str | None = None, **properties: str) -> str:
        """A new table with these commits; returns its name."""
        for depth in range(1, space.count(".") + 2):
            self.site.catalog.create_namespace_if_not_exists(".".join(space.split(".")[:depth]))
        name = f"{space}.t_{uuid4().hex[:8]}"
        made = self.site.catalog.create_table(name, schema=SCHEMA, location=location, properties=properties)
        self.made.append(name)
        for each in commits:
            made.append(each)
        return name

    def load(self, name: str) -> Any:
        return self.site.catalog.load_table(name)

    def live(self, name: str) -> list[str]:
        """The data files of main's head."""
        return [task.file.file_path for task in self.load(name).scan().plan_files()]

    def ids(self, name: str) -> list[int]:
        """The rows of main's head, read from the files."""
        return sorted(self.load(name).scan().to_arrow()["id"].to_pylist())

    def take_in(self, name: str, files: list[str]) -> None:
        """Add files of elsewhere to a table."""
        self.load(name).add_files(files, check_duplicate_files=False)

    def rewrite(self, name: str) -> None:
        """All rows into a new file, as a compaction does."""
        table = self.load(name)
        table.overwrite(table.scan().to_arrow())

    def folder(self, name: str) -> Path:
        return Path(self.load(name).metadata.location.removeprefix("file://"))

    def age(self) -> None:
        """Let every file be a month old."""
        for file in Path(self.runtime.lake.warehouse).rglob("*"):
            os.utime(file, (time() - MONTH_S,) * 2)

    def expire(self, name: str) -> dict[str, Any]:
        """`lakeward tables maintain NAME --actions expire`."""
        return dict(run.maintain(self.runtime, self.project, name, ["expire"]))

    def orphans(self, name: str) -> dict[str, Any]:
        """Remove orphans by the command, the dry run of the first time included, a week apart."""
        self.age()
        done = dict(run.maintain(self.runtime, self.project, name, ["orphans"]))
        if done["actions"] and done["actions"][-1]["result"] == "skipped":
            done = dict(run.maintain(self.runtime, self.project, name, ["orphans"]))
        return done

    def drop(self) -> None:
        """Drop the tables."""
        for name in self.made:
            if self.site.catalog.table_exists(name):
                self.site.catalog.drop_table(name)
        self.site.catalog.close()


def plain_folder(folder: Path, *ids: int) -> list[str]:
    """One parquet file for each id in a folder that is no table's."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for each in ids:
        file = folder / f"part-{each}.parquet"
        pq.write_table(rows(each), file)
        files.append(str(file))
    return files


@contextmanager
def opened(where: Runtime, folder: Path) -> Iterator[SharedLake]:
    """The lake of one test. No stream stages there, so that expiry need not wait for one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pins, "STAGED_FLOOR", timedelta(0))
        yield SharedLake(where, Project(folder / "project"))
    failpoints._hooks.clear()


def entry(document: dict[str, Any]) -> dict[str, Any]:
    [only] = document["actions"]
    return only
