"""The audit log of the page: who changed what, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict

from sqlalchemy import Connection

from lakeward.registry import changes
from lakeward.registry.engine import now
from lakeward.telemetry.mask import mask


class ChangeRow(TypedDict):
    """One change. `scope`: stream | table | driver and others; `name`: of which one."""

    id: int
    at: datetime
    scope: str
    name: str
    change: str
    author: str
    comment: str
    detail: object


class Audit(TypedDict):
    """The newest changes that the user may see, newest first."""

    now: datetime
    changes: Sequence[ChangeRow]


def read(connection: Connection, limit: int) -> Audit:
    """The newest changes."""
    rows: list[ChangeRow] = [
        {
            "id": item.id,
            "at": item.at,
            "scope": item.scope,
            "name": item.name,
            "change": item.change,
            "author": item.author,
            "comment": mask(item.comment),
            "detail": _masked(item.detail),
        }
        for item in changes.newest_of_all(connection, limit)
    ]
    return {"now": now(connection), "changes": rows}


def _masked(value: object, name: str = "") -> object:
    """The detail of a change with every text in it masked, by its name, too."""
    if isinstance(value, str):
        return mask(f"{name}={value}")[len(name) + 1 :]
    if isinstance(value, Mapping):
        return {str(key): _masked(item, str(key)) for key, item in value.items()}
    return [_masked(item, name) for item in value] if isinstance(value, list) else value
