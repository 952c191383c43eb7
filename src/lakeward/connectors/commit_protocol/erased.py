"""The count of erased rows of a stream: a table property beside the position.

An erased row is in no file any more, and none of its values may be stored. The commit that removes the rows stores
their number, so that the audit still explains every record.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.platform.errors import Blocked

_PREFIX = "lakeward.stream."
_SUFFIX = ".erased"


def key(stream: str) -> str:
    """The table property with the number of `stream`'s erased rows."""
    return f"{_PREFIX}{stream}{_SUFFIX}"


def of(properties: Mapping[str, str], stream: str, table: str) -> int:
    """How many rows of a stream were erased from a table.

    Raises:
        Blocked: the property is not a number (`erased-unreadable`).
    """
    text = properties.get(key(stream), "0")
    if text.isascii() and text.isdigit():
        return int(text)
    raise Blocked(
        f"The erased-row count of stream {stream} in {table} cannot be read",
        why=f"property {key(stream)} is not a number",
        next="set the property to its value in an earlier metadata file of the table",
        reason="erased-unreadable",
        code="LW-3010",
    )
