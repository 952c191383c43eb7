"""The JSON of `tables health`, `plan`, `readers` and `why`, also for a table that cannot be read."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from lakeward.platform.boundary import Failure, FailureDocument
from lakeward.tables.ledger import LedgerEntry
from lakeward.tables.plan.model import PlanDocument
from lakeward.tables.plan.rank import LeftOut


class TableHealth(TypedDict):
    """One table in the JSON of `tables health`."""

    table: str
    format: str
    files: int
    small_files: int
    size_bytes: int
    records: int
    delete_files: int
    deleted_rows: int
    manifests: int
    snapshots: int
    metadata_files: int
    partitions: int
    last_commit: datetime | None
    last_maintenance: datetime | None
    due: list[str]
    readers: list[dict[str, object]]
    streams: list[str]
    advice: str
    error: str | None


class HealthDocument(TypedDict):
    """The JSON of `tables health`."""

    tables: list[TableHealth | UnreadTable]


class ObservedHealth(TableHealth):
    """One observed table, with its plan."""

    plan: PlanDocument


class UnreadTable(TypedDict):
    """A table that could not be looked at, among the others of `tables health`; its figures are null.

    Attributes:
        error: why, in one line; also `advice`.
        failure: the same by its parts.
    """

    table: str
    format: None
    files: None
    small_files: None
    size_bytes: None
    records: None
    delete_files: None
    deleted_rows: None
    manifests: None
    snapshots: None
    metadata_files: None
    partitions: None
    last_commit: None
    last_maintenance: None
    due: list[str]
    readers: list[dict[str, object]]
    streams: list[str]
    advice: str
    error: str
    failure: FailureDocument


class ObserveDocument(TypedDict):
    """What an observation found.

    Attributes:
        due: tables to maintain now, best first.
        left: those that the budget leaves out.
        errors: table -> why it could not be read.
    """

    tables: list[ObservedHealth]
    due: list[str]
    left: list[LeftOut]
    errors: dict[str, str]


class PlansDocument(TypedDict):
    """The JSON of `tables plan`."""

    plans: list[PlanDocument]


class Pin(TypedDict):
    """What keeps snapshots from `since` on.

    Attributes:
        kind: stream | reader | check | tag | branch | maintenance | batch.
        stream: the stream that keeps them, if one does.
        snapshots: how many it keeps, by itself, of those that the policy alone would expire.
        bytes: of the data files that are still there for them, at most; None if the format does not record it.
        next: what ends it: a command, or what is waited for.
    """

    kind: str
    who: str
    stream: str | None
    why: str
    since: datetime
    snapshots: int
    bytes: int | None
    next: str


class PinsDocument(TypedDict):
    """The JSON of `tables readers`: readers as in `tables health`, and the snapshot pins, which keep the most first."""

    table: str
    readers: list[dict[str, object]]
    pins: list[Pin]
    refusals: list[str]


class WhyDocument(TypedDict):
    """The JSON of `tables why`; `last` is the newest action."""

    table: str
    plan: PlanDocument
    advice: list[str]
    last: LedgerEntry | None


def unread(table: str, failure: Failure) -> UnreadTable:
    """The row of a table that could not be looked at."""
    return {
        "table": table,
        "format": None,
        "files": None,
        "small_files": None,
        "size_bytes": None,
        "records": None,
        "delete_files": None,
        "deleted_rows": None,
        "manifests": None,
        "snapshots": None,
        "metadata_files": None,
        "partitions": None,
        "last_commit": None,
        "last_maintenance": None,
        "due": [],
        "readers": [],
        "streams": [],
        "advice": f"error: {failure.text}",
        "error": failure.text,
        "failure": failure.document(),
    }


def unplanned(table: str, failure: Failure) -> PlanDocument:
    """The plan of a table that could not be looked at."""
    return {"table": table, "actions": [], "not_planned": [], "error": failure.text}
