"""Release: publishes rows that a check holds, because a person decided so. Once, for the snapshot the run checked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypedDict
from uuid import uuid4

from lakeward.platform.errors import Refused, expect
from lakeward.platform.text import word
from lakeward.quality.publishing import verified
from lakeward.quality.results import incident
from lakeward.quality.verdicts.verdict import State, Verdict
from lakeward.quality.verdicts.waivers import named
from lakeward.registry import changes, events, verifications
from lakeward.registry.verifications import CheckResult, Verification

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession
    from sqlalchemy import Connection

    from lakeward.quality.runs.formats import LakeTable

Connect = Callable[[], AbstractContextManager["Connection"]]


@dataclass(frozen=True)
class HeldRun:
    """The newest run of a table, with verdict `hold`.

    Attributes:
        run: columns of `registry.schema.verifications`.
        checks: of `registry.schema.checks`.
    """

    run: Verification
    checks: list[CheckResult]

    @property
    def failed(self) -> list[str]:
        """The checks that hold the table, each as a clause."""
        clauses = []
        for check in self.checks:
            facts = check["observed"] or {}
            if check["state"] == State.FAIL and facts.get("effect") == "hold":
                count = f" ({check['unexpected_count']:,} rows)" if check["unexpected_count"] else ""
                clauses.append(named(check["expectation"], facts.get("kwargs") or {}) + count)
        return clauses


def held_run(connection: Connection, table: str) -> HeldRun:
    """The run that holds the table now.

    Raises:
        Refused: the newest run does not hold the table, or there is none.
    """
    newest = next(iter(verifications.newest(connection, table, limit=1)), None)
    verdict = Verdict(newest["verdict"]) if newest else None
    if newest is None or verdict != Verdict.HOLD or newest["to_snapshot"] is None:
        why = {None: "It was never checked.", Verdict.ERROR: "Its newest checks could not be computed."}
        raise Refused(
            f"Cannot release {table}: no check holds it",
            why=why.get(verdict, f"The verdict of its newest run is {verdict}."),
            next=f"lakeward quality run {word(table)}",
            code="LW-5007",
        )
    return HeldRun(newest, verifications.checks_of(connection, newest["run"]))


class Released(TypedDict):
    """The contract's fields of an operation, with the verified snapshot and the recorded run."""

    operation: str
    table: str
    result: str
    detail: str
    verified_snapshot: int | None
    run: str


def release(
    connect: Connect, of: LakeTable, session: Callable[[], SparkSession], *, author: str, comment: str
) -> Released:
    """Move `verified` to the snapshot that the newest run checked and holds.

    The failures stay in the results. The run recorded for this has verdict `warn`, the author and the reason. Rows that
    landed after that snapshot are checked by the next run.

    Raises:
        Refused: no check holds the table, or the snapshot is no longer on main.
    """
    table = of.name
    with connect() as connection:
        found = held_run(connection, table)
        proofs = verifications.proofs(connection, table)
    snapshot = expect(found.run["to_snapshot"], f"the head of run {found.run['run']}, which holds the table")
    history, _ = of.look(proofs)
    current = history.snapshots.get(snapshot)
    if not history.on_main(snapshot) or (current is not None and current.commit != found.run["to_commit"]):
        raise Refused(
            f"Cannot release {table}: {history.noun} {snapshot} is no longer part of it",
            why="The table was rolled back or replaced after that check run.",
            next=f"lakeward quality run {word(table)}",
            code="LW-5008",
        )
    now = datetime.now(UTC)
    note = f"released by {author}: {comment.strip()} (held by {'; '.join(found.failed)})"
    run = f"{now:%Y%m%dT%H%M%S}-{uuid4().hex[:6]}"
    row: Verification = {
        **found.run,
        "run": run,
        "at": now,
        "verdict": Verdict.WARN.value,
        "note": note,
        "duration_s": 0.0,
        "verified_snapshot": snapshot,
        "spark_jobs": 0,
        "published_at": None,  # the results table has the held run, not this one
    }
    text = f"{history.noun.capitalize()} {snapshot} was {note}"
    # The proof first, then the branch: the next run would move a branch without a proof back.
    with connect() as connection:
        verifications.record(connection, row, found.checks)
        incident.close(connection, table, text)
        events.record(connection, "table", table, "release", text, snapshot=snapshot, run=run)
        changes.record(
            connection, "table", table, "release", author=author, comment=comment, snapshot=snapshot, run=run
        )
    moved, verified_snapshot = of.move(session, lambda now: verified.advance(now, snapshot), lambda: proofs)
    return {
        "operation": "release",
        "table": table,
        "result": "done",
        "detail": f"verified is at {history.noun} {verified_snapshot} ({moved.why}); {note}",
        "verified_snapshot": verified_snapshot,
        "run": run,
    }
