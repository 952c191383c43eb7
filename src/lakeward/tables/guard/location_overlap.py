"""Does any other table of the catalog keep files below a location? Asked of the catalog itself, now.

The registry knows only tables that were looked at; a table made a minute ago, or by somebody else, counts too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakeward.platform.errors import LakewardError, SpecError
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard.locations import canonical, relative

if TYPE_CHECKING:
    from pyiceberg.table import Table

PLACES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


def intruder_in(site: MaintenanceContext, table: str, location: str) -> str:
    """What other table of the catalog has files below a location, or has the location below its own; empty for none.

    Args:
        site: where.
        table: the location's own table.
        location: its folder.
    """
    for name in site.names():
        if name == table:
            continue
        folder = site.delta(name)
        if folder is not None:
            if relative(f"{folder}/any", location) is not None or canonical(location).startswith(
                canonical(str(folder))
            ):
                return f"Delta table {name} stands in {folder}"
            continue
        try:
            other = site.load(name)
        except SpecError:
            continue  # dropped meanwhile
        except (LakewardError, OSError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            return f"table {name} cannot be read ({reason}): nobody can tell whether its files lie here"
        if canonical(location).startswith(canonical(other.metadata.location)):
            return f"it lies at or below the location of table {name} ({other.metadata.location})"
        inside = next((each for each in _places(other) if relative(each, location) is not None), None)
        if inside is not None:
            return f"table {name} keeps files below its location ({inside})"
    return ""


def _places(table: Table) -> Iterator[str]:
    """Where a table keeps files, as far as its metadata file alone tells."""
    metadata = table.metadata
    yield f"{metadata.location.rstrip('/')}/any"
    yield from (f"{metadata.properties[name].rstrip('/')}/any" for name in PLACES if metadata.properties.get(name))
    yield table.metadata_location
    yield from (each.metadata_file for each in metadata.metadata_log)
    yield from (each.manifest_list for each in metadata.snapshots)
