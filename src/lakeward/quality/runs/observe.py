"""Observes a table before a run: metadata and recorded results, without Spark and without reading rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection

from lakeward.quality.ranges import metadata
from lakeward.quality.ranges.first_bad import PreviousFindings
from lakeward.quality.ranges.range import Range
from lakeward.quality.ranges.snapshot_chain import History, Mark
from lakeward.quality.ranges.verification_lag import Due, check_due
from lakeward.quality.runs import formats
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.formats import LakeTable
from lakeward.quality.runs.order import RunOrder
from lakeward.quality.verdicts.verdict import State
from lakeward.quality.verdicts.waivers import ActiveWaiver, excuses
from lakeward.registry import verifications, waivers
from lakeward.registry.verifications import Verification
from lakeward.spec.model.suite import Suite


@dataclass(frozen=True)
class ObservedState:
    """The observed state of a table.

    Attributes:
        of: the table, in its format.
        history: None when the table does not exist.
        found: the range; None when the table does not exist.
        proofs, newest: recorded runs: those that proved a snapshot, newest first; the newest of all.
        excused: the checks that are waived now.
        waived_then, failed_then: the checks that were waived, and those that failed, in the newest run.
    """

    of: LakeTable
    history: History | None
    found: Range | None
    proofs: Sequence[Verification]
    newest: Verification | None
    excused: Mapping[str, ActiveWaiver]
    waived_then: Collection[str]
    failed_then: frozenset[str] = frozenset()

    @property
    def before(self) -> PreviousFindings | None:
        """The first bad snapshot and the failed checks of the newest run."""
        if self.newest is None:
            return None
        return PreviousFindings(self.newest["from_snapshot"], self.newest["first_bad_snapshot"], self.failed_then)

    def due(self, suite: Suite) -> Due:
        """Whether a run over all tables would check this one."""
        if self.found is None and self.newest is None:
            return Due(False, "the table does not exist yet")
        if self.found is None:
            return Due(True, "the table is missing")
        return check_due(self.found, suite, self.newest, set(self.excused), set(self.waived_then))


def observe(table: str, suite: Suite, order: RunOrder, engines: Engines) -> ObservedState:
    """Read the registry and the table's metadata."""
    with engines.registry() as connection:
        proofs = verifications.proofs(connection, table)
        newest = next(iter(verifications.newest(connection, table, limit=1)), None)
        before = verifications.checks_of(connection, newest["run"]) if newest is not None else []
        recorded = waivers.in_force(connection, table)
    of = formats.of(table, engines.lake, engines.runtime.lake)
    history: History | None = None
    found: Range | None = None
    with suppress(metadata.NoTable):
        history, found = of.look(proofs, order.upto)
    return ObservedState(
        of,
        history,
        found,
        proofs,
        newest,
        excuses(suite, recorded, order.now),
        {each["check"] for each in before if (each["observed"] or {}).get("waived")},
        frozenset(each["check"] for each in before if each["state"] == State.FAIL),
    )


def proven(connection: Connection, table: str) -> list[Mark]:
    """The snapshots of an Iceberg table that recorded runs prove, newest run first."""
    return formats.marks(verifications.proofs(connection, table))
