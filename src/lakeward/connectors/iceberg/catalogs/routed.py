"""Several catalogs of PyIceberg as one: the first part of a table's name says which catalog it is in.

Tables of the default catalog have the names that they have there. Those of a further one have its name in front, in
every list and in `Table.name()`: PyIceberg, Spark, the registry and people call a table the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakeward.connectors.iceberg.catalogs.refusals import Away, Forbidden
from lakeward.platform.errors import DependencyDown

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

Identifier = tuple[str, ...]


class Further:
    """A further catalog: what Lakeward uses of PyIceberg's `Catalog`, with its name in front of every name."""

    def __init__(self, name: str, load: Callable[[], Catalog]) -> None:
        """Args:
        load: connects to it. Called once something of it is needed, so that one that is away harms no other.
        """
        self.name = name
        self._load = load
        self._inner: Catalog | None = None

    @property
    def inner(self) -> Catalog:
        """The catalog itself, for what depends on its kind."""
        if self._inner is None:
            self._inner = self._load()
        return self._inner

    @property
    def properties(self) -> dict[str, Any]:
        """Its properties, by which files are opened."""
        return self.inner.properties

    def list_namespaces(self, namespace: Identifier = ()) -> list[Identifier]:
        with self._listing():
            return [(self.name, *space) for space in self.inner.list_namespaces(namespace[1:])]

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        with self._listing():
            return [(self.name, *table) for table in self.inner.list_tables(namespace[1:])]

    def namespace_exists(self, namespace: Identifier) -> bool:
        return self.inner.namespace_exists(namespace[1:])

    def create_namespace(self, namespace: Identifier) -> None:
        self.inner.create_namespace(namespace[1:])

    def table_exists(self, identifier: Identifier) -> bool:
        return self.inner.table_exists(identifier[1:])

    def load_table(self, identifier: Identifier) -> Table:
        return self._named(self.inner.load_table(identifier[1:]))

    def create_table(self, identifier: Identifier, schema: Any, **options: Any) -> Table:
        return self._named(self.inner.create_table(identifier[1:], schema, **options))

    def register_table(self, identifier: Identifier, metadata_location: str) -> Table:
        return self._named(self.inner.register_table(identifier[1:], metadata_location))

    def drop_table(self, identifier: Identifier) -> None:
        self.inner.drop_table(identifier[1:])

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        there = type(table)(
            table.name()[1:], table.metadata, table.metadata_location, table.io, self.inner, table.config
        )
        return self.inner.commit_table(there, requirements, updates)

    def supports_server_side_planning(self) -> bool:
        """Whether scans are planned by the server: never, as a scan would name the table as the others do."""
        return False

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """Say which catalog is away: a list may have the tables of the others."""
        try:
            yield
        except Forbidden:
            raise
        except DependencyDown as error:
            raise Away(f"Catalog {self.name}: {error.what}", why=error.why, next=error.next, code=error.code) from error

    def _delete_old_metadata(self, io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        self.inner._delete_old_metadata(io, base, metadata)

    def _named(self, table: Table) -> Table:
        name = (self.name, *table.name())
        catalog: Any = self  # it has the part of a catalog that a table calls
        return type(table)(name, table.metadata, table.metadata_location, table.io, catalog, table.config)


class Lakes:
    """The default catalog and the further ones. A name of three parts that begins with a further one's is of that."""

    def __init__(self, default: Catalog, further: Mapping[str, Further]) -> None:
        self.default, self.further = default, further

    @property
    def name(self) -> str:
        """The name of the default catalog."""
        return self.default.name

    @property
    def properties(self) -> dict[str, Any]:
        """The properties of the default catalog."""
        return self.default.properties

    def of(self, identifier: Identifier) -> Any:
        """The catalog of a table: `Catalog` or `Further`."""
        further = self.further.get(identifier[0]) if len(identifier) > 2 else None
        return self.default if further is None else further

    def list_namespaces(self, namespace: Identifier = ()) -> list[Identifier]:
        """Namespaces inside one. The further catalogs are namespaces of the first level, which have no tables."""
        if not namespace:
            return [*self.default.list_namespaces(), *((name,) for name in self.further)]
        if namespace[0] in self.further:
            return self.further[namespace[0]].list_namespaces(namespace)
        return self.default.list_namespaces(namespace)

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        if namespace[0] not in self.further:
            return self.default.list_tables(namespace)
        if len(namespace) > 1:
            return self.further[namespace[0]].list_tables(namespace)
        # A namespace of the default catalog may be called like a further catalog. It has tables, but none inside it.
        return self.default.list_tables(namespace) if self.default.namespace_exists(namespace) else []

    def namespace_exists(self, namespace: Identifier) -> bool:
        return bool(self.of((*namespace, "")).namespace_exists(namespace))

    def create_namespace(self, namespace: Identifier) -> None:
        self.of((*namespace, "")).create_namespace(namespace)

    def table_exists(self, identifier: Identifier) -> bool:
        return bool(self.of(identifier).table_exists(identifier))

    def load_table(self, identifier: Identifier) -> Table:
        table: Table = self.of(identifier).load_table(identifier)
        return table

    def create_table(self, identifier: Identifier, schema: Any, **options: Any) -> Table:
        table: Table = self.of(identifier).create_table(identifier, schema, **options)
        return table

    def register_table(self, identifier: Identifier, metadata_location: str) -> Table:
        table: Table = self.of(identifier).register_table(identifier, metadata_location)
        return table

    def drop_table(self, identifier: Identifier) -> None:
        self.of(identifier).drop_table(identifier)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        response: CommitTableResponse = self.of(table.name()).commit_table(table, requirements, updates)
        return response

    def close(self) -> None:
        self.default.close()
        for each in self.further.values():
            each.close()

    def __enter__(self) -> Lakes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def own(catalog: Any, identifier: Identifier) -> Catalog:
    """The catalog that a table is in, itself: for what depends on its kind."""
    found = catalog.of(identifier) if isinstance(catalog, Lakes) else catalog
    real: Catalog = found.inner if isinstance(found, Further) else found
    return real
