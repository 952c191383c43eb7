"""Request, approval, plan and outcome of an operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal


class StreamOperation(StrEnum):
    """Stream operations that a request alone describes. Airflow writes their names in snake case."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"
    UPGRADE = "upgrade"
    ROLLBACK = "rollback"
    RECOVER = "recover"
    RESET = "reset"
    SKIP_BATCH = "skip-batch"
    IMPORT = "import"

    @classmethod
    def of(cls, word: str) -> StreamOperation:
        """The operation by its name, with dashes or underscores."""
        return cls(word.replace("_", "-"))


@dataclass(frozen=True)
class Approval:
    """A person's approval of exactly one plan, identified by its `key`."""

    by: str
    key: str


@dataclass(frozen=True)
class Request:
    """One operation on one stream or table.

    Attributes:
        operation: its name, e.g. `reset` or `restore`.
        subject: the stream's id, or the table's name.
        comment: the reason, recorded with the change.
        wait: return when the operation is done, not when it is requested.
        kill: end the driver's process when a stream has not stopped in time.
        to: (reset) `earliest`, `latest`, `available`, a time or a file of offsets.
        duplicates: (reset) accepted duplicate rows; must equal the number in the plan.
        batch: (skip-batch) the batch that failed.
        generation: (rollback) the generation to go back to; None: the last stable one.
        folder, undo: (import) the old query's checkpoint; undo an import.
        approval: of a person, where the operation needs one.
        dry_run: make the plan only; its preconditions for applying are not checked.
    """

    operation: str
    subject: str
    comment: str = ""
    wait: bool = True
    kill: bool = False
    to: str | None = None
    duplicates: int = 0
    batch: int | None = None
    generation: int | None = None
    folder: str | None = None
    undo: bool = False
    approval: Approval | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Plan:
    """What an operation would do. Making a plan changes nothing.

    Attributes:
        text: one clause that follows "would".
        lines: the exact ranges, records or differences, shown for approval.
        data: the same facts as JSON values.
        key: changes when the effect of the plan changes; an approval is for one key.
        holds: streams whose operation lock is held.
        drains: streams that are stopped at a batch boundary meanwhile; None: no stream has to stop.
        leases: tables whose maintenance lease is held.
        nothing: why there is nothing to do, as a sentence; empty if there is something to do.
    """

    text: str
    lines: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    holds: tuple[str, ...] = field(default=(), kw_only=True)
    drains: tuple[str, ...] | None = field(default=None, kw_only=True)
    leases: tuple[str, ...] = field(default=(), kw_only=True)
    nothing: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Outcome:
    """Result of an operation.

    Attributes:
        kind, subject: the stream or the table.
        result: done | refused | failed | timed_out | skipped.
        detail: one sentence.
        data: what was done, or would be done, as JSON values.
        lines: further lines for people.
    """

    operation: str
    kind: Literal["stream", "table"]
    subject: str
    result: str
    detail: str
    data: Mapping[str, Any] = field(default_factory=dict)
    lines: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, object]:
        """As JSON."""
        head = {"operation": self.operation, self.kind: self.subject, "result": self.result, "detail": self.detail}
        return {**head, **self.data}
