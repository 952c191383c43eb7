"""Location overlap: whether another table of the catalog keeps files below a location. Asks the catalog, now.

The registry knows observed tables only; a table created a minute ago, or by another system, counts too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakeward.platform.errors import LakewardError, SpecError
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard.locations import nested

if TYPE_CHECKING:
    from pyiceberg.table import Table

PLACES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


def overlap_in_catalog(site: MaintenanceContext, table: str, location: str) -> str:
    """The overlap of another table's files or location with this location, as a sentence; empty for none.

    Args:
        site: the maintenance context.
        table: the table at the location.
        location: the table's folder.
    """
    for name in site.names(every=True):
        if name == table:
            continue
        folder = site.delta(name)
        if folder is not None:
            if nested(str(folder), location) or nested(location, str(folder)):
                return f"Delta table {name} is in {folder}"
            continue
        try:
            other = site.load(name, paths_only=True)
        except SpecError:
            continue  # dropped meanwhile
        except (LakewardError, OSError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            return f"table {name} cannot be read ({reason}): its files may be below this location"
        if nested(location, other.metadata.location):
            return f"it lies at or below the location of table {name} ({other.metadata.location})"
        inside = next((each for each in _places(other) if nested(each.rpartition("/")[0], location)), None)
        if inside is not None:
            return f"table {name} keeps files below its location ({inside})"
    return ""


def _places(table: Table) -> Iterator[str]:
    """The places where a table keeps files, from its metadata file."""
    metadata = table.metadata
    yield f"{metadata.location.rstrip('/')}/any"
    yield from (f"{metadata.properties[name].rstrip('/')}/any" for name in PLACES if metadata.properties.get(name))
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (snapshot.manifest_list for snapshot in metadata.snapshots)
