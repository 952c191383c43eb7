"""What a run knows of a table before it checks anything: metadata and earlier results, no data, no Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from lakeward.connectors.delta import place
from lakeward.errors import Refused
from lakeward.quality import due, metadata
from lakeward.quality.due import Due
from lakeward.quality.engines import Engines
from lakeward.quality.lineage import History, Mark
from lakeward.quality.order import Order
from lakeward.quality.range import Range, decide
from lakeward.quality.waivers import Excuse, excuses
from lakeward.registry import verifications, waivers
from lakeward.spec.suite import Suite

DELTA = "it is a Delta table, and checks are for Iceberg tables: none of its rows is checked"


class Unchecked(Refused):
    """Raised when a check run is asked for that there is none of: nothing is wrong with the data."""


@dataclass(frozen=True)
class Known:
    """What is known of a table.

    Attributes:
        history: None when there is no such table.
        found: the range; None when there is no such table.
        delta: whether there is a Delta table of this name instead, which no run checks.
        proofs, newest: recorded runs: those that proved something, newest first; the newest of all.
        excused: the checks whose failure holds nothing now.
        waived_then: those waived in the newest run.
    """

    history: History | None
    found: Range | None
    proofs: Sequence[Mapping[str, Any]]
    newest: Mapping[str, Any] | None
    excused: Mapping[str, Excuse]
    waived_then: Collection[str]
    delta: bool = False

    def due(self, suite: Suite) -> Due:
        """Whether a run that nobody asked for by name would check the table."""
        if self.delta:
            return Due(False, DELTA)
        if self.found is None and self.newest is None:
            return Due(False, "nothing has landed yet")
        if self.found is None:
            return Due(True, "the table is gone")
        return due.decide(self.found, suite, self.newest, set(self.excused), set(self.waived_then))


def look(table: str, suite: Suite, order: Order, engines: Engines) -> Known:
    """Read what the registry and the table's metadata say."""
    with engines.registry() as connection:
        proofs = verifications.proofs(connection, table)
        newest = next(iter(verifications.newest(connection, table, limit=1)), None)
        before = verifications.checks_of(connection, newest["run"]) if newest is not None else []
        recorded = waivers.in_force(connection, table)
    try:
        history = metadata.history(engines.lake, table).up_to(order.upto)
    except metadata.NoTable:
        history = None
    return Known(
        history,
        decide(history, _marks(proofs)) if history else None,
        proofs,
        newest,
        excuses(suite, recorded, order.now),
        {each["check"] for each in before if (each["observed"] or {}).get("waived")},
        delta=history is None and table in place.known(engines.runtime.lake),
    )


def proven(connection: Connection, table: str) -> list[Mark]:
    """The snapshots that recorded runs prove, newest run first."""
    return _marks(verifications.proofs(connection, table))


def _marks(proofs: Sequence[Mapping[str, Any]]) -> list[Mark]:
    return [Mark(each["to_snapshot"], each["to_sequence"]) for each in proofs]
