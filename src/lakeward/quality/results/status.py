"""Status of every table with a suite: newest verdict, verified snapshot, verification lag.

Reads metadata and recorded results only: no check runs, no row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import NoReturn, TypedDict

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.runtime import Project, Runtime
from lakeward.quality.delta.table import DeltaTable, proof_of
from lakeward.quality.ranges.verification_lag import LIMIT, Lag, LagDocument, lag
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.observe import ObservedState, observe
from lakeward.quality.runs.order import RunOrder
from lakeward.quality.runs.request import Request
from lakeward.quality.suite.project import order
from lakeward.registry.verifications import Verification
from lakeward.spec.model.suite import Suite
from lakeward.spec.model.types import Duration


class JudgedLag(LagDocument):
    """The lag beside the limit of its suite."""

    limit_s: float
    late: bool


class StatusDocument(TypedDict):
    """One table in the JSON of `quality status`."""

    table: str
    verdict: str | None
    run: str | None
    at: datetime | None
    verified_snapshot: int | None
    proven_at: datetime | None
    lag: JudgedLag
    why: str
    error: str | None


@dataclass(frozen=True)
class ProofStatus:
    """One table.

    Attributes:
        newest: the newest run (columns of `registry.schema.verifications`), if any.
        proof: the newest run that proved its snapshot, if any.
        lag: the commits that are not proven yet.
        limit: the limit of the lag.
        why: why a run would or would not check it now, as a clause.
        error: why the status is unknown.
    """

    table: str
    newest: Verification | None = None
    proof: Verification | None = None
    lag: Lag = field(default_factory=Lag)
    limit: Duration = LIMIT
    why: str = ""
    error: str = ""

    def document(self, now: datetime) -> StatusDocument:
        """As JSON of `quality status`."""
        newest, proof, lag = self.newest, self.proof, self.lag.document(now)
        return {
            "table": self.table,
            "verdict": newest["verdict"] if newest else None,
            "run": newest["run"] if newest else None,
            "at": newest["at"] if newest else None,
            "verified_snapshot": proof["to_snapshot"] if proof else None,
            "proven_at": proof["at"] if proof else None,
            "lag": {**lag, "limit_s": self.limit.seconds, "late": lag["lag_s"] > self.limit.seconds},
            "why": self.why,
            "error": self.error or None,
        }


def proof_status(
    runtime: Runtime, registry_url: str, project: Project, tables: Sequence[str] | None = None
) -> list[ProofStatus]:
    """The status of every table with a suite, or of the named tables.

    Raises:
        SpecError: a named table has no suite, or an invalid one.
        DependencyDown: the registry does not answer.
    """
    named = None if tables is None else tuple(tables)
    run_order = order(Request(runtime=runtime, registry_url=registry_url, project=project.root, tables=named))
    engines = Engines(runtime, registry_url, no_session)
    return [_standing(table, run_order, engines) for table in named or sorted({*run_order.suites, *run_order.invalid})]


def _standing(table: str, run_order: RunOrder, engines: Engines) -> ProofStatus:
    if table in run_order.invalid:
        return ProofStatus(table, error=run_order.invalid[table])
    suite = run_order.suites[table]
    limit = suite.limits.verification_lag if suite.limits is not None else LIMIT
    seen = attempt(f"table {table}", partial(_read, table, suite, limit, run_order, engines))
    return ProofStatus(table, limit=limit, error=seen.text) if isinstance(seen, Failure) else seen


def _read(table: str, suite: Suite, limit: Duration, run_order: RunOrder, engines: Engines) -> ProofStatus:
    known: ObservedState = observe(table, suite, run_order, engines)
    proof = next(iter(known.proofs), None)
    if isinstance(known.of, DeltaTable):  # an earlier table of that name may have proofs too
        proof = proof_of(known.history, known.proofs) if known.history is not None else None
    return ProofStatus(table, known.newest, proof, lag(known.found), limit, known.due(suite).why)


def no_session(own_id: str) -> NoReturn:
    """For engines that read metadata and results only."""
    raise AssertionError("metadata and results need no session")
