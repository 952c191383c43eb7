"""What a person asks for, what would be done, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Operation(StrEnum):
    """The operations on a stream. Airflow writes them in snake case."""

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
    def of(cls, word: str) -> Operation:
        """The operation of a word in either case."""
        return cls(word.replace("_", "-"))


@dataclass(frozen=True)
class Approval:
    """Somebody's yes to exactly one plan: `key` is the plan's."""

    by: str
    key: str


@dataclass(frozen=True)
class Request:
    """One operation on one stream.

    Attributes:
        comment: why; kept with the change.
        wait: return when it is done, not when it is asked for.
        kill: (stop, restart) end the driver's process when the stream has not stopped in time.
        to: (reset) `earliest`, `latest`, a time or a file of offsets.
        duplicates: (reset) how many rows may land a second time; must be the number the plan shows.
        batch: (skip-batch) the batch that failed.
        generation: (rollback) the generation to go back to; None: the last stable one.
        folder, undo: (import) the old query's checkpoint; or take an import back.
        approval: of a person, for what needs one.
        dry_run: only the plan is wanted, whatever it would need to be carried out.
    """

    operation: Operation
    stream: str
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
    """

    text: str
    lines: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True)
class Outcome:
    """How an operation ended: `result` is done | refused | failed | timed_out | skipped."""

    operation: str
    stream: str
    result: str
    detail: str
    plan: Plan | None = None
