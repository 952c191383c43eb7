"""Early warnings that no check has decided yet. Pure: what batches counted and what runs decided in, warnings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lakeward.quality.advisory.counted import Counted, Counters
from lakeward.quality.verdicts.verdict import State

APART = timedelta(minutes=1)
"""The clocks of a checker and of the registry differ by less. A run from before a batch cannot have seen it, whatever
its seq: a table that went back to an older snapshot counts its batches from there again."""


@dataclass(frozen=True)
class Early:
    """What a check would say of the rows it has not seen, if it ran now. It decides, not this.

    Attributes:
        counted: the check.
        stream: that landed the rows.
        failing, rows: rows that fail, of so many, of all counted batches that the check has not decided.
        first, newest: those batches, by their ids.
        since_batch, since_seq, since: the first of them with a failing row, and when it was committed.
    """

    counted: Counted
    stream: str
    failing: int
    rows: int
    first: int
    newest: int
    since_batch: int
    since_seq: int
    since: datetime


@dataclass(frozen=True)
class Decided:
    """A run: the checks it came to an answer for, and stream -> the newest seq of the rows it did so for."""

    at: datetime
    checks: frozenset[str]
    seqs: Mapping[str, int]

    @classmethod
    def of(cls, run: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]) -> Decided:
        """From columns of `registry.schema.verifications` and `checks`. A check that is an error decided nothing."""
        answered = frozenset(each["check"] for each in checks if each["state"] in (State.PASS, State.FAIL))
        seqs = {each["stream"]: each["to_seq"] for each in run["batches"] or () if each["to_seq"] is not None}
        return cls(run["at"], answered, seqs)

    def decides(self, check: str, batch: Mapping[str, Any]) -> bool:
        """Whether the check's answer is about the rows of a batch, too."""
        seen = batch["seq"] <= self.seqs.get(batch["stream"], -1)
        return check in self.checks and seen and batch["committed_at"] < self.at + APART


def standing(counters: Counters, batches: Sequence[Mapping[str, Any]], runs: Sequence[Decided]) -> list[Early]:
    """The warnings that stand, by stream and in the suite's order.

    Args:
        counters: what is counted by now; what an earlier suite counted is passed over.
        batches: columns of `registry.schema.batches`, of streams that land in one table.
        runs: of this table.
    """
    counted = [each for each in batches if each["advisory"] is not None and each["seq"] is not None]
    found = []
    for stream in sorted({each["stream"] for each in counted}):
        own = sorted((each for each in counted if each["stream"] == stream), key=_order)
        for check in counters.counted:
            unseen = [each for each in own if not any(run.decides(check.check, each) for run in runs)]
            warned = _of(check, stream, unseen)
            found += [warned] if warned is not None else []
    return found


def _order(batch: Mapping[str, Any]) -> tuple[datetime, int]:
    return batch["committed_at"], batch["seq"]


def fails(failing: int, rows: int, mostly: float) -> bool:
    """Whether a check fails of so many failing rows of those looked at; as Great Expectations decides it."""
    return failing > 0 and (rows - failing) / rows < mostly


def _of(check: Counted, stream: str, batches: Sequence[Mapping[str, Any]]) -> Early | None:
    counts = [each["advisory"].get(check.check, (0, each["landed"])) for each in batches]
    failing, rows = sum(each[0] for each in counts), sum(each[1] for each in counts)
    if not fails(failing, rows, check.mostly):
        return None
    since = next(batch for batch, count in zip(batches, counts, strict=True) if count[0])
    return Early(
        counted=check,
        stream=stream,
        failing=failing,
        rows=rows,
        first=batches[0]["batch_id"],
        newest=batches[-1]["batch_id"],
        since_batch=since["batch_id"],
        since_seq=since["seq"],
        since=since["committed_at"],
    )
