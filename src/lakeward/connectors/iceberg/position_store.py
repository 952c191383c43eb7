"""The position of a stream in an Iceberg table: a table property, moved by a compare-and-set through PyIceberg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

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
from lakeward.connectors.iceberg import audit, fence, paths_only
from lakeward.connectors.iceberg.check import check_table
from lakeward.connectors.iceberg.fence import EmptySnapshot
from lakeward.connectors.iceberg.pyiceberg_table import state_of
from lakeward.connectors.iceberg.qualified import prefix_of
from lakeward.platform.errors import DependencyDown, Refused, Transient
from lakeward.spec.sql.names import name_parts
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate


@dataclass(frozen=True)
class IcebergPositionStore(PositionStore):
    """The position of one stream in one table of a catalog."""

    catalog: Catalog
    name: str
    stream: str

    def read(self) -> StoredPosition:
        """Read the position from the table's newest metadata."""
        try:
            loaded = self.table
        except NoSuchTableError:
            return StoredPosition(None, None, missing(self.name, self.stream))
        raw = loaded.properties.get(position.key(self.stream))
        parsed = None if raw is None else position.parse(raw, self.stream, self.name)
        return StoredPosition(raw, parsed, block_reason_of(loaded.metadata, self.stream, self.name, prefix_of(loaded)))

    def _swap(self, expected: StoredPosition, moved: Position) -> Position:
        """Commit the table property."""
        return write_position(self.catalog, self.name, self.stream, moved, expected.raw)

    def scan(self) -> Scan:
        return audit.scan(self.table)

    @property
    def location(self) -> str | None:
        return str(self.table.location())

    @property
    def table(self) -> Table:
        """Load the table.

        Raises:
            NoSuchTableError: the table does not exist.
            DependencyDown: the catalog does not answer.
        """
        with answering():
            return paths_only.readable(self.catalog, name_parts(self.name))


@contextmanager
def answering() -> Iterator[None]:
    """Raise `DependencyDown` if the catalog cannot be reached inside the block, or loses the answer to a commit."""
    from pyiceberg.exceptions import CommitStateUnknownException
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
    except CommitStateUnknownException as error:
        raise DependencyDown(
            "The catalog did not answer a commit, which may have been done",
            why=str(error).strip().splitlines()[0],
            next="repeat the command: it reads the table again, and changes nothing twice",
            code="LW-3429",
        ) from None


def block_reason_of(metadata: TableMetadata, stream: str, table: str, catalog: str) -> BlockReason | None:
    """Why the position may not be moved: its rows are missing from the table, or a batch landed without it.

    Staging that is switched off does not count: an import switches it on.
    """
    return check_table(replace(state_of(metadata, stream, table), staging=True), catalog)


class AssertPosition(ValidatableTableRequirement):
    """The replaced metadata must still have the expected position."""

    type: Literal["assert-lakeward-position"] = "assert-lakeward-position"
    stream: str
    expected: str | None

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as pyiceberg's own do
        raw = base_metadata.properties.get(position.key(self.stream)) if base_metadata else None
        if raw != self.expected:
            at = position.parse(raw, self.stream, "the table") if raw is not None else None
            now = f"at seq {at.seq}, batch {at.batch} of query {at.query_id or 'none'}" if at else "missing"
            why = f"the position is now {now}"
            raise moved_meanwhile(self.stream, why)


def swap(
    catalog: Catalog,
    loaded: Table,
    stream: str,
    expected: str | None,
    *updates: TableUpdate,
    fenced: EmptySnapshot | None = None,
) -> bool:
    """Commit `updates` if the table still has the position `expected`; False if another writer's commit came first.

    Args:
        fenced: what `fence.empty_snapshot` returned.

    Raises:
        Fenced: the table has another position.
    """
    unchanged = AssertPosition(stream=stream, expected=expected)
    if fenced is None:
        # A requirement of our own: SqlCatalog and HiveCatalog validate whatever they are given.
        failpoints.hit("before-position")
        requirements: tuple[Any, ...] = (AssertTableUUID(uuid=loaded.metadata.table_uuid), unchanged)
    else:
        # The server compares refs only: if the position moved after it was loaded, the stream's tag did, too.
        unchanged.validate(loaded.metadata)
        failpoints.hit("before-position")
        requirements, updates = fenced.requirements, (*fenced.updates, *updates)
    try:
        catalog.commit_table(loaded, requirements, updates)
    except CommitFailedException:
        return False
    return True


@answering()
def write_position(catalog: Catalog, table: str, stream: str, new: Position, expected: str | None) -> Position:
    """Set a stream's position without any data: the primitive of import, reset and restore.

    It uses the same compare-and-set as publication. It fails if the stream lands a batch in between, and it fences a
    driver that is cut off from the registry. `snapshot` and `snapshot_seq` of `new` become main's head;
    in a REST catalog that is an empty snapshot of the same commit.

    Args:
        expected: the property as it was read (`table.properties.get(position.key(stream))`); None if there was none.

    Raises:
        Fenced: the table has another position than `expected`.
        Refused: `seq` would not rise, or landed rows are missing from the table.
        Transient: other writers committed first at every attempt.
        DependencyDown: the catalog does not answer. If it failed during the commit, the position may have been set.
    """
    before = position.parse(expected, stream, table) if expected is not None else None
    if before is not None and new.seq <= before.seq:
        raise seq_falls(stream, before, new)
    sent: Position | None = None
    for _ in range(SWAP_ATTEMPTS):
        loaded = catalog.load_table(name_parts(table))
        if sent is not None and loaded.properties.get(position.key(stream)) == sent.to_json():
            return sent  # the commit was done, and its answer, a refusal, was of a proxy or of a repeated request
        if (halt := block_reason_of(loaded.metadata, stream, table, prefix_of(loaded))) is not None:
            raise Refused(
                f"The position of stream {stream} was not moved",
                why=f"{halt.what}: {halt.why}",
                next=halt.next,
                code="LW-3079",
            )
        main = loaded.metadata.refs.get("main")
        head = loaded.metadata.snapshot_by_id(main.snapshot_id) if main else None
        snapshot, seq = (head.snapshot_id, head.sequence_number or 0) if head else (None, 0)
        fenced = fence.empty_snapshot(catalog, loaded, stream)
        if fenced is not None:
            snapshot, seq = fenced.snapshot, fenced.seq
        moved = new.model_copy(update={"snapshot": snapshot, "snapshot_seq": seq})
        change = SetPropertiesUpdate(updates={position.key(stream): moved.to_json()})
        if swap(catalog, loaded, stream, expected, change, fenced=fenced):
            return moved
        sent = moved if fenced is not None else None  # only a snapshot of its own makes the text unique
    raise Transient(
        f"The position of stream {stream} in {table} was not set: contention",
        why=f"other writers committed first in each of {SWAP_ATTEMPTS} attempts",
        next="repeat the command",
        code="LW-3075",
    )


@answering()
def remove_position(
    catalog: Catalog, table: str, stream: str, expected: str, properties: Mapping[str, str | None]
) -> None:
    """Remove a position at which no batch has landed, and set other properties back; None removes a property.

    Raises:
        Fenced: the table has another position than `expected`.
        Transient: other writers committed first at every attempt.
        DependencyDown: the catalog does not answer. If it failed during the commit, the position may have been removed.
    """
    removed = [position.key(stream), *(name for name, value in properties.items() if value is None)]
    restored = {name: value for name, value in properties.items() if value is not None}
    for _ in range(SWAP_ATTEMPTS):
        loaded = catalog.load_table(name_parts(table))
        without = RemovePropertiesUpdate(removals=[name for name in removed if name in loaded.properties])
        fenced = fence.empty_snapshot(catalog, loaded, stream)
        if swap(catalog, loaded, stream, expected, without, SetPropertiesUpdate(updates=restored), fenced=fenced):
            return
    raise Transient(
        f"The position of stream {stream} was not removed from {table}: contention",
        why=f"other writers committed first in each of {SWAP_ATTEMPTS} attempts",
        next="repeat the command",
        code="LW-3076",
    )
