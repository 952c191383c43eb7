"""The position of a stream in an Iceberg table: a table property, moved by a compare-and-set through PyIceberg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    ValidatableTableRequirement,
)

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.position_store import (
    SWAP_ATTEMPTS,
    PositionStore,
    StoredPosition,
    missing,
    moved_meanwhile,
    seq_falls,
)
from lakeward.connectors.iceberg import audit
from lakeward.connectors.iceberg.check import check_table
from lakeward.connectors.iceberg.pyiceberg_table import state_of
from lakeward.platform.errors import DependencyDown, Refused, Transient

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass(frozen=True)
class IcebergPositionStore(PositionStore):
    """The position of one stream in one table of a catalog."""

    catalog: Catalog
    name: str
    stream: str

    def read(self) -> StoredPosition:
        """The table's newest metadata."""
        try:
            loaded = self.table
        except NoSuchTableError:
            return StoredPosition(None, None, missing(self.name, self.stream))
        raw = loaded.properties.get(position.key(self.stream))
        parsed = None if raw is None else position.parse(raw, self.stream, self.name)
        return StoredPosition(raw, parsed, halt_of(loaded.metadata, self.stream, self.name))

    def _swap(self, expected: StoredPosition, moved: Position) -> Position:
        """One commit of the table's properties."""
        return write_position(self.catalog, self.name, self.stream, moved, expected.raw)

    def scan(self) -> Scan:
        return audit.scan(self.table)

    @property
    def location(self) -> str | None:
        return str(self.table.location())

    @property
    def table(self) -> Table:
        """The table, loaded anew.

        Raises:
            NoSuchTableError: there is none.
            DependencyDown: the catalog does not answer.
        """
        with answering():
            return self.catalog.load_table(self.name)


@contextmanager
def answering() -> Iterator[None]:
    """Within: a catalog's database that cannot be reached is a `DependencyDown`."""
    from sqlalchemy.exc import OperationalError

    try:
        yield
    except OperationalError as error:
        raise DependencyDown(
            "The catalog does not answer",
            why=str(error.orig).strip().splitlines()[0],
            next="lakeward stack status",
            code="LW-3078",
        ) from None


def halt_of(metadata: TableMetadata, stream: str, table: str) -> BlockReason | None:
    """Why the position may not be moved: its rows are not in the table, or a batch landed without it.

    Staging that is switched off is no reason: an import switches it on.
    """
    return check_table(replace(state_of(metadata, stream, table), staging=True))


class _AssertPosition(ValidatableTableRequirement):
    """The position must still be the expected one in the metadata that is replaced."""

    type: Literal["assert-lakeward-position"] = "assert-lakeward-position"
    stream: str
    expected: str | None

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as pyiceberg's own do
        found = base_metadata.properties.get(position.key(self.stream)) if base_metadata else None
        if found != self.expected:
            at = position.parse(found, self.stream, "the table") if found is not None else None
            why = f"now at seq {at.seq}, batch {at.batch} of query {at.query_id or 'none'}" if at else "it is gone"
            raise moved_meanwhile(self.stream, why)


def write_position(catalog: Catalog, table: str, stream: str, new: Position, expected: str | None) -> Position:
    """Set a stream's position without any data: the primitive of import, reset and restore.

    The same compare-and-set as publication: if the stream lands a batch meanwhile, this fails; and a driver that was
    cut off from the registry is fenced by it. `snapshot` and `snapshot_seq` of `new` become main's head.

    Args:
        expected: the property as it was read (`table.properties.get(position.key(stream))`), None for none.

    Raises:
        Fenced: the table has another position than `expected`.
        Refused: `seq` would fall, rows that the position calls landed are gone, or the catalog is a REST one, whose
            commits do not compare properties.
        Transient: other writers of the table came first too often.
    """
    from pyiceberg.catalog.rest import RestCatalog

    if isinstance(catalog, RestCatalog):
        raise Refused(
            f"The position of stream {stream} cannot be set through a REST catalog from here",
            why="a REST commit compares branches, not properties: it could overwrite a batch that lands meanwhile",
            next="run the operation in a driver (lakeward.connectors.iceberg.publish.write_position)",
            code="LW-3077",
        )
    before = position.parse(expected, stream, table) if expected is not None else None
    if before is not None and new.seq <= before.seq:
        raise seq_falls(stream, before, new)
    for _ in range(SWAP_ATTEMPTS):
        loaded = catalog.load_table(table)
        if (halt := halt_of(loaded.metadata, stream, table)) is not None:
            raise Refused(
                f"The position of stream {stream} is not moved",
                why=f"{halt.what}: {halt.why}",
                next=halt.next,
                code="LW-3079",
            )
        main = loaded.metadata.refs.get("main")
        head = loaded.metadata.snapshot_by_id(main.snapshot_id) if main else None
        moved = new.model_copy(
            update={
                "snapshot": head.snapshot_id if head else None,
                "snapshot_seq": (head.sequence_number or 0) if head else 0,
            }
        )
        update = SetPropertiesUpdate(updates={position.key(stream): moved.to_json()})
        requirements = (
            AssertTableUUID(uuid=loaded.metadata.table_uuid),
            _AssertPosition(stream=stream, expected=expected),
        )
        try:
            catalog.commit_table(loaded, requirements, (update,))  # type: ignore[arg-type]  # a requirement of our own: SqlCatalog validates whatever it is given
        except CommitFailedException:
            continue  # another writer's commit came first; nothing was written
        return moved
    raise Transient(f"The position of stream {stream} could not be set in {table}: contention", code="LW-3075")


def remove_position(
    catalog: Catalog, table: str, stream: str, expected: str, properties: Mapping[str, str | None]
) -> None:
    """Take a position away that nothing was landed on, and put other properties back; None: remove that one too.

    Raises:
        Fenced: the table has another position than `expected`.
        Transient: other writers of the table came first too often.
    """
    gone = [position.key(stream), *(name for name, value in properties.items() if value is None)]
    back = {name: value for name, value in properties.items() if value is not None}
    for _ in range(SWAP_ATTEMPTS):
        loaded = catalog.load_table(table)
        updates = [RemovePropertiesUpdate(removals=[name for name in gone if name in loaded.properties])]
        requirements = (
            AssertTableUUID(uuid=loaded.metadata.table_uuid),
            _AssertPosition(stream=stream, expected=expected),
        )
        try:
            catalog.commit_table(loaded, requirements, (*updates, SetPropertiesUpdate(updates=back)))  # type: ignore[arg-type]  # see above
        except CommitFailedException:
            continue  # another writer's commit came first; nothing was written
        return
    raise Transient(f"The position of stream {stream} could not be removed from {table}: contention", code="LW-3076")
