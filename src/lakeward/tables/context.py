"""The context of maintenance: addresses of the deployment, policies of the project, registry, catalog."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from lakeward.connectors.delta import location
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.iceberg import paths_only as paths
from lakeward.connectors.iceberg.catalog import load_lake
from lakeward.connectors.iceberg.catalogs.jdbc import catalog_down
from lakeward.connectors.iceberg.catalogs.routed import own
from lakeward.platform.boundary import worded
from lakeward.platform.errors import LakewardError, SpecError
from lakeward.platform.runtime import Project, Runtime, absent
from lakeward.platform.text import whole_number, word
from lakeward.registry.engine import connect
from lakeward.spec.model.policy import Policy, TableClass
from lakeward.spec.model.settings import Settings
from lakeward.spec.model.tables import Tables, resolve_policy
from lakeward.spec.read.loader import Loaded, load_project
from lakeward.spec.sql.catalogs import further_of, lake_of
from lakeward.spec.sql.names import NotAName, dotted, name_parts
from lakeward.tables.facts import Thresholds
from lakeward.tables.guard.locations import nested

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

log = structlog.get_logger(__name__)

_NEAR = 10  # tables that an error names

Refusals = dict[tuple[str, ...], str]
"""Namespaces that the login may not list -> why."""
TARGET_PROPERTIES = ("write.target-file-size-bytes", "delta.targetFileSize")  # Iceberg's, Delta's
OWN = "lakeward."  # the namespace of the results of checks
UNREADABLE = "read it with the engine that wrote it, restore its metadata or drop it; other tables go on"
"""What helps for a table whose metadata cannot be read."""
CHANGES_ROWS = ("upsert", "complete")  # sink modes that delete or overwrite by design


@dataclass(frozen=True)
class MaintenanceContext:
    """Access to everything maintenance needs. If `project` has no policies, the defaults apply."""

    runtime: Runtime
    project: Project
    policies: Tables = field(default_factory=Tables)

    @classmethod
    def of(cls, runtime: Runtime, project: Project) -> MaintenanceContext:
        """The context of a deployment and a project.

        Raises:
            SpecError: `conf/tables.yaml` is invalid: without its policies nothing is maintained.
        """
        if absent(project.tables_file):
            return cls(runtime, project)
        return cls(runtime, project, _loaded(project, project.tables_file).tables)

    def settings(self) -> Settings:
        """The settings in `conf/lakeward.yaml`.

        Raises:
            SpecError: the file is invalid.
        """
        file = self.project.settings_file
        return Settings() if absent(file) else _loaded(self.project, file).settings

    @contextmanager
    def registry(self) -> Iterator[Connection]:
        """One transaction on the registry."""
        with connect(self._registry_url, pgpass=self.runtime.pgpass) as connection:
            yield connection

    @cached_property
    def _registry_url(self) -> str:
        chosen = os.environ.get("LAKEWARD_REGISTRY_URL_FILE")
        return Path(chosen or self.runtime.registry_url_file).read_text().strip()

    @cached_property
    def catalog(self) -> Catalog:
        """The Iceberg catalog, without a JVM."""
        return load_lake(self.runtime.lake, self.runtime.pgpass)

    def names(self, *, every: bool = False) -> list[str]:
        """The Iceberg tables of the catalog and the Delta tables of the warehouse, sorted.

        Args:
            every: whether a namespace that the login may not list is an error; else it is skipped, with a warning.

        Raises:
            DependencyDown: the catalog does not answer, or with `every` refuses to list a namespace.
        """
        refused: Refusals | None = None if every else {}
        with self._reaching():
            found = {dotted(name) for name in self._tables(refused)}
        for space, why in sorted((refused or {}).items()):
            log.warning("namespace skipped: it cannot be listed", namespace=dotted(space), why=why)
        return sorted(found | set(location.tables_of(self.runtime.lake)))

    def pointers(self) -> dict[tuple[str, ...], str | None]:
        """Every Iceberg table of the catalog, nested namespaces too -> its metadata file, by which a change is noticed
        without loading the table; None where the catalog does not list it.

        Raises:
            DependencyDown: the catalog does not answer, or refuses to list a namespace: a table there may use any file.
        """
        with self._reaching():
            rows = self._rows()
            if rows is None:
                return dict.fromkeys(self._tables())
            found = {identifier: at for catalog, identifier, at in rows if catalog == self.catalog.name}
            further = [(each.name,) for each in self.runtime.lake.others]
            return found | dict.fromkeys(self._tables(roots=further) if further else ())

    def neighbours(self) -> dict[tuple[str, ...], str]:
        """The tables that catalogs of another name have in the same database: catalog, namespace, name -> metadata
        file. A Spark of somebody else names the catalog as it likes, and the warehouse may be the same.

        Raises:
            DependencyDown: the catalog does not answer.
        """
        with self._reaching():
            rows = self._rows() or []
            own = self.catalog.name
            return {(catalog, *identifier): at or "" for catalog, identifier, at in rows if catalog != own}

    def begins_in(self, files: Collection[str], table: tuple[str, ...]) -> dict[str, str]:
        """The other tables of the database that are at one of these metadata files -> the file. `register_table` makes
        such a table. None is found in a catalog that is not in PostgreSQL.

        Raises:
            DependencyDown: the catalog does not answer.
        """
        from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
        from sqlalchemy import select

        default = own(self.catalog, table)
        if not isinstance(default, SqlCatalog) or not files:
            return {}
        space, name = ".".join(table[:-1]), table[-1]
        query = select(
            IcebergTables.catalog_name,
            IcebergTables.table_namespace,
            IcebergTables.table_name,
            IcebergTables.metadata_location,
        ).where(IcebergTables.metadata_location.in_(files))
        with self._reaching(), default.engine.connect() as connection:
            rows = connection.execute(query).all()
        begins: dict[str, str] = {}
        for catalog, found, other, at in rows:
            if (catalog, found, other) != (default.name, space, name):
                where = "" if catalog == default.name else f" of catalog {catalog}"
                begins[dotted((*found.split("."), other)) + where] = str(at)
        return begins

    def _rows(self) -> list[tuple[str, tuple[str, ...], str | None]] | None:
        """Catalog, table and metadata file of every row of a catalog in PostgreSQL; None for other catalogs."""
        from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
        from sqlalchemy import select

        default = own(self.catalog, ())
        if not isinstance(default, SqlCatalog):
            return None
        query = select(
            IcebergTables.catalog_name,
            IcebergTables.table_namespace,
            IcebergTables.table_name,
            IcebergTables.metadata_location,
        )
        if (tables := default._iceberg_type_filter()) is not None:  # views have rows too
            query = query.where(tables)
        with default.engine.connect() as connection:
            found = connection.execute(query)
            return [(catalog, (*space.split("."), name), at) for catalog, space, name, at in found]

    def _tables(
        self, refused: Refusals | None = None, roots: Sequence[tuple[str, ...]] | None = None
    ) -> Iterator[tuple[str, ...]]:
        """The Iceberg tables of every namespace, as the catalogs list them; the arguments are those of `namespaces`."""
        for space in namespaces(self.catalog, refused, roots):
            yield from _inside(self.catalog.list_tables, space, refused)

    def delta(self, table: str) -> Folder | None:
        """The folder of a Delta table; None if there is none of that name, or an Iceberg table has the name."""
        if lake_of(self.runtime.lake, table) is not self.runtime.lake:
            return None
        if location.warehouse(self.runtime.lake) is None or not location.exists(
            location.folder_of(self.runtime.lake, table)
        ):
            return None
        with self._reaching():
            return (
                None if self.catalog.table_exists(name_parts(table)) else location.folder_of(self.runtime.lake, table)
            )

    def load(self, table: str, *, paths_only: bool = False) -> Table:
        """An Iceberg table, freshly loaded.

        Args:
            paths_only: for callers that need the paths it names; it may have no columns, and nothing is committed.

        Raises:
            SpecError: the table does not exist; lists the known ones.
            DependencyDown: the catalog does not answer.
            LakewardError: its metadata file cannot be read: it is cut, missing, or of a newer format.
        """
        from pyiceberg.exceptions import NoSuchTableError

        read = paths.load if paths_only else paths.readable

        def load() -> Table:
            parts = name_parts(table)
            if len(parts) < 2:  # PyIceberg's error about it names no table
                raise NotAName(table)
            return read(self.catalog, parts)

        try:
            with self._reaching():
                return worded(
                    f"table {table}",
                    load,
                    through=(NoSuchTableError, NotAName, OperationalError),
                    next=UNREADABLE,
                )
        except (NoSuchTableError, NotAName):
            names = self.names()
            near = names if len(names) <= _NEAR else difflib.get_close_matches(table, names, _NEAR, cutoff=0)
            more = f" and {len(names) - len(near)} more" if len(names) > len(near) else ""
            known = f"{', '.join(near)}{more}" if near else "none yet"
            meant = [name for name in names if name.endswith(f".{table}")]
            raise SpecError(
                f"Table {table} does not exist",
                why=f"Tables of the lake: {known}.",
                next=f"lakeward tables health {word(meant[0])}" if len(meant) == 1 else "lakeward tables health",
                code="LW-4002",
            ) from None

    def is_at(self, table: str, location: str) -> bool:
        """Whether a table is at a location, below or above it; True if the table cannot be read."""
        folder = self.delta(table)
        try:
            found = str(folder) if folder is not None else self.load(table, paths_only=True).metadata.location
        except SpecError:
            return False
        except (LakewardError, OSError, ValueError):
            return True
        return nested(found, location) or nested(location, found)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except OperationalError as error:
            raise catalog_down(self.runtime.lake, error) from error

    def policy(self, table: str, class_: TableClass) -> Policy:
        """The resolved policy of a table."""
        return resolve_policy(self.policies, table, class_, further_of(self.runtime.lake, table)).policy

    def unsafe(self, table: str, path: str) -> bool:
        """Whether a threshold (`expire.older_than`) comes from an entry under `unsafe:`."""
        resolved = resolve_policy(self.policies, table, further=further_of(self.runtime.lake, table))
        return "unsafe[" in resolved.origins[path]

    def external(self, table: str) -> bool:
        """Whether a table's catalog is not the stack's own, so that the table may be anybody's."""
        return lake_of(self.runtime.lake, table).external

    def has_suite(self, table: str) -> bool:
        """Whether the project has expectations for the table."""
        return (self.project.expectations / f"{table}.yaml").exists()


def namespaces(
    catalog: Catalog, refused: Refusals | None = None, roots: Sequence[tuple[str, ...]] | None = None
) -> list[tuple[str, ...]]:
    """Every namespace of a catalog, the nested ones included, parents first. A further catalog is one of them.

    Args:
        refused: receives each namespace that the login may not list, and each further catalog that is away, which are
            skipped; without it that is an error.
        roots: the namespaces to begin with; None: all.

    Raises:
        DependencyDown: the catalog does not answer, or refuses to list one.
    """
    found: list[tuple[str, ...]] = []
    above = sorted(set(catalog.list_namespaces() if roots is None else roots))
    while above:
        found += above
        # Some REST catalogs list every level at once.
        below = {each for space in above for each in _inside(catalog.list_namespaces, space, refused)}
        above = sorted(below - set(found))
    return found


def _inside(
    ask: Callable[[tuple[str, ...]], list[tuple[str, ...]]], space: tuple[str, ...], refused: Refusals | None
) -> list[tuple[str, ...]]:
    """What a listing of a namespace has; nothing if the namespace was dropped since."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    from lakeward.connectors.iceberg.catalogs.refusals import Away, Forbidden

    try:
        return ask(space)
    except NoSuchNamespaceError:
        return []
    except (Forbidden, Away) as error:
        if refused is None:
            raise
        refused[space] = error.why or error.what
        return []


def _loaded(project: Project, file: Path) -> Loaded:
    loaded = load_project(project)
    wrong = [problem for problem in loaded.problems if problem.severity == "error" and problem.file.endswith(file.name)]
    if wrong:
        raise SpecError(
            f"conf/{file.name} has {len(wrong)} problem{'s' if len(wrong) > 1 else ''}",
            why="; ".join(f"{problem.file}:{problem.line}:{problem.column} {problem.message}" for problem in wrong),
            next="lakeward config validate",
            code="LW-4001",
        )
    return loaded


def thresholds(policy: Policy, table_bytes: int, properties: Mapping[str, str]) -> Thresholds:
    """The size thresholds for a table's files."""
    own = next((properties[name] for name in TARGET_PROPERTIES if name in properties), "")
    target = policy.compact.target_for(table_bytes, max(whole_number(own) or 0, 0))
    return Thresholds(
        target=target,
        small=int(target * policy.compact.small_file_ratio),
        fragment=int(target * policy.compact.fragment_ratio),
        deleted=policy.deletes.deleted_rows_ratio,
        opened=policy.deletes.min_delete_files,
    )


def class_of(
    table: str, writers: Mapping[str, str], streams: tuple[str, ...], *, delta: bool = False, external: bool = False
) -> TableClass:
    """The class of a table, by its writers.

    Args:
        table: its name.
        writers: table -> sink mode of the streams that write it.
        streams: the streams that have a position in it.
        delta: whether it is a Delta table.
        external: whether its catalog is not the stack's own: `MaintenanceContext.external`.
    """
    if delta:
        return "delta-stream"
    mode = writers.get(table)
    if mode is not None:
        return "upsert-stream" if mode in CHANGES_ROWS else "append-stream"
    if streams:
        return "append-stream"
    return "foreign" if external and not table.startswith(OWN) else "append-batch"
