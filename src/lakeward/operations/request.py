"""What a person asks for, what would be done, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal


class StreamOperation(StrEnum):
    """The operations on a stream that a request names. Airflow writes them in snake case."""

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
        """The operation of a word in either case."""
        return cls(word.replace("_", "-"))


@dataclass(frozen=True)
class Approval:
    """A person's approval of exactly one plan: `key` is the plan's."""

    by: str
    key: str


@dataclass(frozen=True)
class Request:
    """One operation on one stream or table.

    Attributes:
        operation: its name, e.g. `reset` or `restore`.
        subject: the stream's id, or the table's name.
        comment: why; kept with the change.
        wait: return when it is done, not when it is asked for.
        kill: end the driver's process when a stream has not stopped in time.
        to: (reset) `earliest`, `latest`, a time or a file of offsets.
        duplicates: (reset) how many rows may land a second time; must be the number the plan shows.
        batch: (skip-batch) the batch that failed.
        generation: (rollback) the generation to go back to; None: the last stable one.
        folder, undo: (import) the old query's checkpoint; or take an import back.
        approval: of a person, for what needs one.
        dry_run: only the plan is wanted, whatever it would need to be carried out.
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
    """What an operation would do, found out without touching anything.

    Attributes:
        text: in one sentence, after "would".
        lines: the exact ranges, records or differences, for whoever approves it.
        data: the same as JSON values.
        key: changes when what would be done changes: an approval is for one key.
        holds: the streams on which nothing else may be operated meanwhile.
        drains: the streams that are stopped at a batch boundary meanwhile; None: nothing has to stand still.
        leases: the tables on which no maintenance may run meanwhile.
        nothing: why there is nothing to do, as a sentence; empty: there is.
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
    """How an operation ended.

    Attributes:
        kind, subject: of what: a stream or a table.
        result: done | refused | failed | timed_out | skipped.
        detail: in a sentence.
        data: what was done, or would be, as JSON values.
        lines: more about it, for people.
    """

    operation: str
    kind: Literal["stream", "table"]
    subject: str
    result: str
    detail: str
    data: Mapping[str, Any] = field(default_factory=dict)
    lines: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """As JSON."""
        head = {"operation": self.operation, self.kind: self.subject, "result": self.result, "detail": self.detail}
        return {**head, **self.data}
