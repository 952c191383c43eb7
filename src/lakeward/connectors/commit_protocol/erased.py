"""What a table says of rows that were erased: a count by stream, a property beside the position.

An erased row stands nowhere any more, and nothing of it may be kept; how many there were is kept, in the commit that
takes them out, so that the audit goes on explaining every record.
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
        Blocked: the property is not one of ours (`erased-unreadable`).
    """
    text = properties.get(key(stream), "0")
    if text.isascii() and text.isdigit():
        return int(text)
    raise Blocked(
        f"What {table} says of the erased rows of stream {stream} cannot be read",
        why=f"property {key(stream)} is no number",
        next="put the property back as the table's earlier metadata has it",
        reason="erased-unreadable",
        code="LW-3010",
    )
