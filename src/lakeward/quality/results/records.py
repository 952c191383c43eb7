"""Check results as rows of the registry and as JSON of the commands. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NotRequired, TypedDict, cast

from lakeward.platform.text import word
from lakeward.quality.ranges.range import Range
from lakeward.quality.ranges.snapshot_chain import Snapshot
from lakeward.quality.results.json_values import finite
from lakeward.quality.verdicts.verdict import Check, State, Verdict
from lakeward.registry.batches import Batch
from lakeward.registry.verifications import CheckDetails, CheckFacts, CheckResult, LandedBatches, Verification


class RangeDocument(TypedDict):
    """The range of a run: how many commits and rows, why these, and why not more."""

    kind: str
    commits: int
    rows: int | None
    why: str
    cut: str | None


class CheckDocument(CheckDetails):
    """One check in the JSON of `quality run`. `observed`: what the expectation reports, of any JSON type."""

    id: str
    expectation: str
    severity: str
    state: str
    observed: object
    unexpected_count: int | None
    sample: list[dict[str, object]]


class WaiverDocument(TypedDict):
    """A waiver in force in the JSON of `quality show`."""

    check: str
    name: str
    author: str
    reason: str
    until: datetime


class RunDocument(TypedDict):
    """The JSON of `quality run` and `quality show`.

    The registry does not store `range` and `first_bad_batches`; `proven_at` and `waivers` are of `quality show` only.
    """

    table: str
    run: str
    suite: str
    from_snapshot: int | None
    to_snapshot: int | None
    verdict: str
    spark_jobs: int | None
    duration_s: float | None
    checks: list[CheckDocument]
    first_bad_snapshot: int | None
    verified_snapshot: int | None
    cpu_s: float | None
    at: str | datetime
    scope: str
    format: str
    range: NotRequired[RangeDocument]
    batches: list[LandedBatches]
    first_bad_batches: NotRequired[list[LandedBatches]]
    note: str
    next: str
    proven_at: NotRequired[datetime | None]
    waivers: NotRequired[list[WaiverDocument]]


@dataclass(frozen=True)
class Result:
    """One run on one table.

    Attributes:
        run: unique id.
        at: its start, UTC.
        suite: digest of the suite.
        scope: the requested `increment`, `window` or `table`; `increment` when each check used its own.
        found: the range.
        checks: in the suite's order.
        batches: the batches in the range, by stream.
        first_bad: the first snapshot that makes a failed check fail, if known.
        verified: the verified snapshot after the run.
        note: why there is no verdict of checks, or a remark about the range.
    """

    run: str
    at: datetime
    table: str
    suite: str
    scope: str
    found: Range
    verdict: Verdict
    checks: tuple[Check, ...] = ()
    batches: tuple[LandedBatches, ...] = ()
    first_bad: int | None = None
    first_bad_batches: tuple[LandedBatches, ...] = ()
    verified: int | None = None
    spark_jobs: int | None = None
    duration_s: float = 0.0
    cpu_s: float | None = None
    note: str = ""
    steps: tuple[str, ...] = field(default=())

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed or could not be computed."""
        return tuple(check for check in self.checks if check.state in (State.FAIL, State.ERROR))

    def row(self) -> Verification:
        """As columns of `registry.schema.verifications`."""
        head = self.found.head
        return {
            "run": self.run,
            "table": self.table,
            "suite": self.suite,
            "scope": self.scope,
            "at": self.at,
            "from_snapshot": self.found.base.snapshot if self.found.base else None,
            "to_snapshot": head.id if head else None,
            "to_sequence": head.sequence if head else None,
            "to_commit": head.commit if head else None,
            "verdict": self.verdict.value,
            "first_bad_snapshot": self.first_bad,
            "verified_snapshot": self.verified,
            "batches": list(self.batches),
            "spark_jobs": self.spark_jobs,
            "duration_s": round(self.duration_s, 3),
            "note": self.note,
            "cpu_s": None if self.cpu_s is None else round(self.cpu_s, 3),
        }

    def check_rows(self) -> list[CheckResult]:
        """As columns of `registry.schema.checks`; `observed` has the fields without a column of their own."""
        return [check_row(check) for check in self.checks]

    def document(self) -> RunDocument:
        """As the contract's JSON of `quality run`."""
        row = self.row()
        found = self.found
        return {
            "table": self.table,
            "run": self.run,
            "suite": self.suite,
            "from_snapshot": row["from_snapshot"],
            "to_snapshot": row["to_snapshot"],
            "verdict": row["verdict"],
            "spark_jobs": self.spark_jobs,
            "duration_s": row["duration_s"],
            "checks": [shown(row) for row in self.check_rows()],
            "first_bad_snapshot": self.first_bad,
            "verified_snapshot": self.verified,
            "cpu_s": row["cpu_s"],
            "at": self.at.isoformat(),
            "scope": self.scope,
            "format": "iceberg" if found.noun == "snapshot" else "delta",
            "range": {
                "kind": found.kind.value,
                "commits": len(found.snapshots),
                "rows": found.rows,
                "why": found.why,
                "cut": found.cut.value if found.cut else None,
            },
            "batches": list(self.batches),
            "first_bad_batches": list(self.first_bad_batches),
            "note": self.note,
            "next": next_step(self.verdict, self.table, [check_row(check) for check in self.checks], self.note),
        }


def check_row(check: Check) -> CheckResult:
    """One check as columns of `registry.schema.checks`."""
    return {
        "check": check.id,
        "expectation": check.expectation,
        "severity": check.severity,
        "state": check.state.value,
        "observed": _facts(check),
        "unexpected_count": check.unexpected_count,
        "sample": list(check.sample),
    }


def recorded(run: Verification, checks: Sequence[CheckResult]) -> RunDocument:
    """A run of the registry in the form of the contract's JSON. The registry does not store details of the range.

    Args:
        run: columns of `registry.schema.verifications`.
        checks: columns of `registry.schema.checks`.
    """
    return {
        "table": run["table"],
        "run": run["run"],
        "suite": run["suite"],
        "from_snapshot": run["from_snapshot"],
        "to_snapshot": run["to_snapshot"],
        "verdict": run["verdict"],
        "spark_jobs": run["spark_jobs"],
        "duration_s": run["duration_s"],
        "checks": [shown(check) for check in checks],
        "first_bad_snapshot": run["first_bad_snapshot"],
        "verified_snapshot": run["verified_snapshot"],
        "cpu_s": run["cpu_s"],
        "at": run["at"],
        "scope": run["scope"],
        "format": "iceberg" if run["to_commit"] is None else "delta",
        "batches": run["batches"] or [],
        "note": run["note"],
        "next": next_step(Verdict(run["verdict"]), run["table"], checks, run["note"] or ""),
    }


def _facts(check: Check) -> CheckFacts:
    return {
        "value": check.observed,
        "rows": check.rows,
        "kwargs": finite(check.kwargs),
        "scope": check.scope,
        "on_fail": check.on_fail,
        "effect": check.effect.name.lower(),
        "waived": check.waived,
        "waive_until": check.excuse.until.isoformat() if check.excuse else None,
        "excuse": check.excuse.document() if check.excuse else None,
        "why": check.why,
        "error": check.error,
        "by": check.by,
    }


def shown(row: CheckResult) -> CheckDocument:
    """A row of `registry.schema.checks` in the contract's form of a check."""
    facts = row["observed"] or {}
    details = {name: value for name, value in facts.items() if name != "value"}
    return {
        "id": row["check"],
        "expectation": row["expectation"],
        "severity": row["severity"],
        "state": row["state"],
        "observed": facts.get("value"),
        "unexpected_count": row["unexpected_count"],
        "sample": row.get("sample") or [],
        **cast("CheckDetails", details),
    }


def noun_of(document: RunDocument) -> str:
    """The term for a snapshot in a run's document: `snapshot` or `version`."""
    return "version" if document.get("format") == "delta" else "snapshot"


def next_step(verdict: Verdict, table: str, checks: Sequence[CheckResult] = (), note: str = "") -> str:
    """The next command after this verdict, with the worst of the failing checks; empty when nothing is to do."""
    if verdict is Verdict.HOLD:
        failing = [check for check in checks if check["state"] in (State.FAIL.value, State.ERROR.value)]
        if not failing:
            return f"lakeward quality show {word(table)}"
        worst = max(failing, key=lambda check: (check["severity"] == "critical", check["unexpected_count"] or 0))
        check = worst["check"]
        why = f'--comment "rows fail {check}"'
        return (
            f"move the rows to quarantine: lakeward quality quarantine {word(table)} {check} {why}   "
            f"or waive the check: lakeward quality waive {word(table)} {check} --for 2h {why}   or publish anyway: "
            f"lakeward quality release {word(table)} {why}   or correct the rows in the lake, then: "
            f"lakeward quality run {word(table)}"
        )
    if verdict is Verdict.ERROR:
        broken = [check for check in checks if check["state"] == State.ERROR.value]
        return after_error(table, [(check["observed"] or {}).get("error") or "" for check in broken] or [note])
    return ""


_OF_THE_MOMENT = re.compile(
    r"Cannot find (?:a )?snapshot|is not (?:a parent )?ancestor|snapshot .{0,40}(?:not found|does not exist)"
    r"|FILE_NOT_EXIST|FILE_NOT_FOUND|FileNotFound|NotFoundException|File does not exist|VERSION_NOT_FOUND"
    r"|no longer in the Delta log|repeat the run",
    re.IGNORECASE,
)
"""What an engine says of a snapshot or a file that went while it was read: another run reads what is there then."""


def after_error(table: str, errors: Sequence[str]) -> str:
    """The next command after a run that could not compute, by what it said: the suite may be right as it is."""
    run = f"lakeward quality run {word(table)}"
    if errors and all("It is not in the catalog" in error for error in errors):
        return f"lakeward streams list   shows whether the stream whose first batch creates it runs, then: {run}"
    if errors and all(map(_OF_THE_MOMENT.search, errors)):
        return f"{run}   the table changed while it was read; if it is said again: lakeward tables why {word(table)}"
    return f"lakeward quality lint   then: {run}"


@dataclass(frozen=True)
class _Landed:
    seq: int | None
    start: Mapping[str, str] | None = None
    end: Mapping[str, str] | None = None


def by_stream(batches: Sequence[Batch], snapshots: Sequence[Snapshot]) -> tuple[LandedBatches, ...]:
    """The batches each stream landed in the snapshots: `{stream, from_seq, to_seq, batches, start, end}`.

    Offsets come from the registry's batches. For a batch that is not in the registry, the id its snapshot was staged
    under still names the stream and the seq.
    """
    landed: dict[str, list[_Landed]] = {}
    known = {batch.snapshot_id for batch in batches}
    for batch in batches:
        landed.setdefault(batch.stream, []).append(_Landed(batch.seq, batch.start_offsets, batch.end_offsets))
    for snapshot in snapshots:
        parts = (snapshot.wap_id or "").split("/")
        if snapshot.id not in known and len(parts) == 3 and parts[1].isdigit():
            landed.setdefault(parts[0], []).append(_Landed(int(parts[1])))
    summed: list[LandedBatches] = []
    for stream, found in sorted(landed.items()):
        found.sort(key=lambda each: each.seq or 0)
        first, last = found[0], found[-1]
        summed.append(
            {
                "stream": stream,
                "from_seq": first.seq,
                "to_seq": last.seq,
                "batches": len(found),
                "start": first.start,
                "end": last.end,
            }
        )
    return tuple(summed)
