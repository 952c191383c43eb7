"""Sets properties of a Delta table in one commit without Spark, which reads some of them before it commits anything.

The commit is the next version of the log, which only one writer can take (ADR 45, 113). It has the table's metadata
with these properties changed, and nothing else: every file, every column and the position of every stream stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakeward.connectors.delta import log
from lakeward.connectors.delta.delta_log import DeltaLog, commit_info
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.delta.log import Head
from lakeward.connectors.delta.position_store import unsupported
from lakeward.platform.errors import Fenced, Refused, Transient

OPERATION = "SET TBLPROPERTIES"
"""The operation of the commit in `DESCRIBE HISTORY`, as Spark's own."""
_ATTEMPTS = 10


def amend(table: str, folder: Folder, properties: Mapping[str, str], expected: Mapping[str, str | None]) -> int:
    """Set properties; returns the version that has them.

    Args:
        expected: properties as they were read, None for an absent one; they must not have changed.

    Raises:
        Fenced: one of `expected` has changed, or the table was removed.
        Refused: the table has features that a commit without Spark does not support.
        Transient: other writers committed first at every attempt.
    """
    for _ in range(_ATTEMPTS):
        head = log.head(folder)
        changed = sorted(expected) if head is None else sorted(_changed(head, expected))
        if head is None or changed:
            raise Fenced(
                f"The properties of Delta table {table} changed: {', '.join(changed)}",
                why="another writer committed to the table first; this operation changed nothing",
                next="repeat the command",
                code="LW-3493",
            )
        if features := unsupported(head):
            raise Refused(
                f"The properties of Delta table {table} cannot be set without Spark",
                why="the table has writer features that a commit without Spark does not support: "
                f"{', '.join(features)}",
                next="set them by the engine that wrote them",
                code="LW-3494",
            )
        about = commit_info(OPERATION, head.version, parameters={"properties": json.dumps(dict(properties))})
        if DeltaLog(folder).put(head.version + 1, [about, {"metaData": _metadata(head, properties)}]):
            return head.version + 1
    raise Transient(
        f"The properties of Delta table {table} were not set: contention",
        why=f"other writers committed first in each of {_ATTEMPTS} attempts",
        next="repeat the command",
        code="LW-3495",
    )


def _changed(head: Head, expected: Mapping[str, str | None]) -> list[str]:
    return [name for name, value in expected.items() if head.properties.get(name) != value]


def _metadata(head: Head, properties: Mapping[str, str]) -> dict[str, Any]:
    """The action `metaData`. One that was read from a checkpoint has nulls, and its empty lists are no lists."""
    known = {name: value for name, value in head.metadata.items() if value is not None}
    return known | {
        "partitionColumns": list(head.partition_columns),
        "configuration": {**head.properties, **properties},
    }
