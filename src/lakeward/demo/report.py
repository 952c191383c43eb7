"""Report of `demo --check`: figures, and every failed claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class StreamReport:
    """One stream. `missing` and `duplicates` come from source positions; None if a row aggregates many records."""

    id: str
    sink: str
    lineage: str
    state: str
    produced: int
    landed: int
    quarantined: int
    late_dropped: int | None
    missing: int | None
    duplicates: int | None
    mismatched_windows: int | None
    restarts: int
    p99_freshness_s: float | None


@dataclass
class TableReport:
    """One table before and after its maintenance."""

    table: str
    files_before: int | None
    files_after: int | None
    rows_before: int | None
    rows_after: int | None
    snapshots_before: int | None
    snapshots_after: int | None

    @classmethod
    def of(cls, table: str, compact: Mapping[str, Any], expire: Mapping[str, Any]) -> TableReport:
        """Create the report from the ledger entries of a compaction and an expiry.

        Files and rows that landed during the rewrite count as present before, because the rewrite did not change them.
        """

        def around(entry: Mapping[str, Any], figure: str) -> tuple[int | None, int | None]:
            after = entry.get("after") or {}
            before = (entry.get("before") or {}).get(figure)
            meanwhile = after.get(f"{figure}_meanwhile", 0)
            return (None if before is None else before + meanwhile), after.get(figure)

        return cls(table, *around(compact, "files"), *around(compact, "records"), *around(expire, "snapshots"))


@dataclass
class QualityReport:
    """One check run."""

    table: str
    run: str
    verdict: str
    failed_checks: list[str]
    verified_snapshot: int | None


@dataclass
class Report:
    """The complete report. `ok`: every claim holds; `problems`: the failed claims."""

    seed: int
    records: int
    streams: list[StreamReport] = field(default_factory=list)
    tables: list[TableReport] = field(default_factory=list)
    quality: list[QualityReport] = field(default_factory=list)
    dag_runs: dict[str, dict[str, int]] = field(default_factory=dict)
    timings_s: dict[str, float] = field(default_factory=dict)
    peak_pss_bytes: int = 0
    story: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)

    def claim(self, holds: bool, otherwise: str) -> None:
        """Record `otherwise` as a problem if the claim does not hold."""
        if not holds:
            self.problems.append(otherwise)

    @property
    def ok(self) -> bool:
        """Whether every claim held."""
        return not self.problems

    def document(self) -> dict[str, Any]:
        """The JSON."""
        data = asdict(self)
        runs = data.pop("dag_runs")
        return {"ok": self.ok, **data, "airflow": {"dag_runs": runs}}
