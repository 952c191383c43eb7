"""Put back the position of a stream that was removed from an Iceberg table, or that cannot be read any more.

The earlier metadata files of the table still have it. It is right only if no batch of the stream landed after it: the
table itself proves that, by main's ancestry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import SetPropertiesUpdate

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.position_store import SWAP_ATTEMPTS
from lakeward.connectors.iceberg import fence
from lakeward.connectors.iceberg.position_store import answering, block_reason_of, swap
from lakeward.connectors.iceberg.qualified import prefix_of
from lakeward.platform.errors import Blocked, Transient
from lakeward.spec.sql.names import name_parts

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass(frozen=True)
class Earlier:
    """The newest position that an earlier metadata file has.

    Attributes:
        raw: the text of the property, put back unchanged.
        file: the metadata file that has it.
        present: the text of the property now; None if it was removed.
    """

    position: Position
    raw: str
    file: str
    present: str | None


def earlier(table: Table, name: str, stream: str) -> Earlier | None:
    """The newest readable position of the metadata log, if the table has exactly the batches that it counts.

    None if a newer metadata file cannot be read: no older position is known to be the newest.

    Args:
        name: of the table, for messages.
    """
    key, present = position.key(stream), table.properties.get(position.key(stream))
    for entry in reversed(table.metadata.metadata_log):
        try:
            before = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except (OSError, ValueError):
            return None  # it may have a newer position than the next one: a reset moves it without a snapshot
        raw = before.properties.get(key)
        try:
            found = None if raw is None else position.parse(raw, stream, name)
        except Blocked:
            continue  # the same text that cannot be read
        if raw is None or found is None:
            continue
        complete = block_reason_of(_with(table.metadata, key, raw), stream, name, prefix_of(table)) is None
        return Earlier(found, raw, entry.metadata_file, present) if complete else None
    return None


@answering()
def put_back(catalog: Catalog, name: str, stream: str, found: Earlier) -> bool:
    """Set the property to its earlier text by a compare-and-set; whether the table still has exactly its batches.

    Raises:
        Fenced: the table has another position now.
        Transient: other writers committed first at every attempt.
        DependencyDown: the catalog does not answer.
    """
    key = position.key(stream)
    for _ in range(SWAP_ATTEMPTS):
        loaded = catalog.load_table(name_parts(name))
        if block_reason_of(_with(loaded.metadata, key, found.raw), stream, name, prefix_of(loaded)) is not None:
            return False
        fenced = fence.empty_snapshot(catalog, loaded, stream)
        if swap(catalog, loaded, stream, found.present, SetPropertiesUpdate(updates={key: found.raw}), fenced=fenced):
            return True
    raise Transient(
        f"The position of stream {stream} in {name} was not put back: contention",
        why=f"other writers committed first in each of {SWAP_ATTEMPTS} attempts",
        next="repeat the command",
        code="LW-3295",
    )


def _with(metadata: TableMetadata, key: str, raw: str) -> TableMetadata:
    return metadata.model_copy(update={"properties": {**metadata.properties, key: raw}})
