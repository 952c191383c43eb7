"""Properties of a table by which PyIceberg writes: a value that it cannot use is refused before a stream stops.

PyIceberg meets such a value after it has written files, some of them never: `write.parquet.page-row-limit` of 0 ends no
loop of Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeward.connectors.iceberg.qualified import prefix_of, procedure
from lakeward.platform.text import word
from lakeward.spec.sql.names import dotted
from lakeward.spec.sql.statements import argument, call_name, quote_text
from lakeward.tables.facts import gc_disabled

if TYPE_CHECKING:
    from pyiceberg.table import Table

_NUMBERS: Final[Mapping[str, int | None]] = {
    "write.target-file-size-bytes": 1,
    "write.parquet.row-group-limit": 1,
    "write.parquet.page-row-limit": 1,
    "write.parquet.page-size-bytes": 1,
    "write.parquet.dict-size-bytes": 0,
    "write.parquet.compression-level": None,
    "write.metadata.previous-versions-max": None,
    "commit.manifest.target-size-bytes": 0,
    "commit.manifest.min-count-to-merge": 0,
    "commit.retry.num-retries": 0,
    "commit.retry.min-wait-ms": 0,
    "commit.retry.max-wait-ms": 0,
    "commit.retry.total-timeout-ms": 0,
}
"""Property -> its least value; None without one."""
_FLAGS: Final = (
    "write.object-storage.enabled", "write.object-storage.partitioned-paths", "commit.manifest-merge.enabled",
    "write.metadata.delete-after-commit.enabled",
)  # fmt: skip
_CODEC: Final = "write.parquet.compression-codec"
_LARGEST: Final = 2**63 - 1
FORMAT: Final = "write.format.default"
EARLIER: Final = "of an earlier partitioning: rewrite them into the current one first"
DROPPED: Final = "partitioned by a column that was dropped: rewrite them without it first"
EQUALITY: Final = "equality deletes, which contain values of rows"
WITH_ROWS: Final = "position deletes that contain the deleted rows"
PARQUET: Final = "Parquet is rewritten"
_OF_FILES: Final = (EARLIER, DROPPED, EQUALITY, WITH_ROWS, PARQUET)
"""Why rows cannot be erased from files as they are: one rewrite of all files makes others, and the old ones expire."""


def unusable(table: Table) -> str:
    """Why PyIceberg cannot write files of this table by its properties, as a clause; empty if it can."""
    from pyiceberg.io.pyarrow import compute_statistics_plan
    from pyiceberg.table.locations import load_location_provider

    if (found := _odd(table.properties)) is not None:
        return f"its property {found[0]} is {table.properties[found[0]]!r}, {found[1]}"
    try:
        compute_statistics_plan(table.schema(), table.properties)
        load_location_provider(table.location(), table.properties)
    except ValueError as error:
        return f"its properties cannot be used: {str(error).splitlines()[0]}"
    return ""


def way_out(table: Table, why: str = "") -> str:
    """The next command for a table whose rows cannot be erased.

    Args:
        why: the obstacle.
    """
    name = dotted(table.name())
    place = call_name(name, prefix_of(table))
    if table.metadata.format_version > 2:
        delete = f"DELETE FROM {place} WHERE CONDITION"  # noqa: S608  # words for a person, who types it
        return (
            f"lakeward sql --write {word(delete)}   with the condition of this command, takes the rows out of the "
            f"newest snapshot; the earlier ones go when they expire: lakeward tables why {word(name)}"
        )
    if gc_disabled(table.properties):
        allow = f"ALTER TABLE {place} SET TBLPROPERTIES ('gc.enabled' = 'true')"
        return f"lakeward sql --write {word(allow)}   if no other table has its files; then repeat the command"
    found = _odd(table.properties)
    odd = FORMAT if other_format(table.properties) else found[0] if found is not None else ""
    if not odd and any(each in why for each in _OF_FILES):
        options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
        call = procedure("rewrite_data_files", name, prefix_of(table))
        rewrite = f"{call}(table => {argument(name)}, options => {options})"
        return (
            f"lakeward sql --write {word(rewrite)}   makes Parquet files of the current partitioning, without deletes; "
            f"then: lakeward tables maintain {word(name)} --actions expire   once the earlier snapshots are older than "
            "expire.older_than of its policy; then repeat the command"
        )
    if not odd:
        return f"lakeward tables why {word(name)}"
    unset = f"ALTER TABLE {place} UNSET TBLPROPERTIES ({quote_text(odd)})"
    return f"lakeward sql --write {word(unset)}   then repeat the command"


def other_format(properties: Mapping[str, str]) -> bool:
    """Whether new files of the table have another format than Parquet."""
    return properties.get(FORMAT, "parquet").lower() != "parquet"


def _odd(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """The first property with a value that PyIceberg cannot use, and what is wrong with it."""
    from pyiceberg.types import strtobool

    given = {key: value for key, value in properties.items() if value}  # PyIceberg takes an empty one for none
    for key, least in _NUMBERS.items():
        if key in given and not _fits(given[key], least):
            return key, "no whole number" if least is None else f"no whole number from {least} on"
    for key in _FLAGS:
        try:
            strtobool(given.get(key, "true"))
        except ValueError:
            return key, "neither true nor false"
    codec = given.get(_CODEC, "zstd")
    if codec != "uncompressed" and not _known(codec):
        return _CODEC, "which Arrow cannot write; it can: zstd, gzip, snappy, uncompressed"
    return None


def _fits(text: str, least: int | None) -> bool:
    try:
        return -_LARGEST <= int(text) <= _LARGEST and (least is None or int(text) >= least)
    except ValueError:
        return False


def _known(codec: str) -> bool:
    try:
        return codec.lower() == "none" or bool(pa.Codec.is_available(codec.lower()))
    except ValueError:
        return False
