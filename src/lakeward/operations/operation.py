"""Base class of operations: `plan` changes nothing, `apply` carries the plan out. `runner` does the common part."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from sqlalchemy import Connection

from lakeward.operations.context import Context
from lakeward.operations.request import Approval, Outcome, Plan, Request
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import LakewardError
from lakeward.platform.text import word
from lakeward.registry import changes
from lakeward.tables.guard.actor import TableLease

P = TypeVar("P", bound=Plan)


class Lock(Enum):
    """The lock an operation takes before it plans and keeps until its end."""

    NONE = "nothing"
    STREAM = "the operation ticket of the stream"
    REBUILD = "the stream's rebuild: the stream itself is operated on until its tables are swapped"
    TABLE = "the lease of the table"


@dataclass
class HeldLocks:
    """Leases and tickets that the runner holds for an operation while it is applied.

    Attributes:
        tables: leases of tables.
        streams: stream -> waits for it and renews its ticket.
        drained: streams that were stopped for the operation and must run again.
    """

    tables: list[TableLease] = field(default_factory=list)
    streams: dict[str, Waiting] = field(default_factory=dict)
    drained: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raises:
        Refused: another process took over a stream or a table.
        """
        for waiting in self.streams.values():
            waiting.renew()
        for actor in self.tables:
            actor.check()


class Operation(ABC, Generic[P]):
    """One operation on one stream or table. One instance for each request.

    Attributes:
        name: shown to people and stored in the registry.
        kind: whether `subject` is a stream or a table.
        lock: taken before the plan is made.
        needs_comment, needs_approval: a comment, or a person's approval of exactly its plan, is required.
        clears_block: whether a drained stream loses its block when the operation is done.
    """

    name: ClassVar[str]
    kind: ClassVar[Literal["stream", "table"]] = "stream"
    lock: ClassVar[Lock] = Lock.STREAM
    needs_comment: ClassVar[bool] = False
    clears_block: ClassVar[bool] = True
    needs_approval: bool = False

    def __init__(self, context: Context, request: Request) -> None:
        self.context = context
        self.request = request

    @property
    def subject(self) -> str:
        """The stream's id, or the table's name."""
        return self.request.subject

    @property
    def title(self) -> str:
        """The operation as a noun phrase within a sentence."""
        return f"{self.name} of {'stream ' if self.kind == 'stream' else ''}{self.subject}"

    @property
    def command(self) -> str:
        """The command that runs it without Airflow, for `next` of an error."""
        return f"lakeward {self.kind}s {self.name} {word(self.subject)}"

    def exists(self) -> None:
        """Raises:
        SpecError: the stream or table does not exist.
        """

    def interrupted_plan(self) -> P | None:
        """The plan of an earlier run that was killed half-way. It is finished first, under the approval of that run."""
        return None

    def completes(self, interrupted: P) -> bool:
        """Whether finishing the earlier run is all that was requested."""
        return True

    @abstractmethod
    def plan(self) -> P:
        """Make the plan; changes nothing.

        Raises:
            SpecError: the stream or table does not exist, or the request is not valid.
            Refused: the operation is not possible in the current state.
        """

    def drained_plan(self, plan: P) -> P:
        """The plan, made again after the streams have stopped."""
        return self.plan()

    def resources(self, plan: P) -> AbstractContextManager[Any]:
        """Opened while the operation is prepared and applied, e.g. a Spark session."""
        return nullcontext()

    def prepare(self, plan: P) -> None:
        """The part of the work that runs before the streams are locked and drained."""

    def ledger(self, plan: P) -> Mapping[str, Any] | None:
        """Figures before, for the table's ledger; None: the operation has no row in the ledger."""
        return None

    def ledger_after(self, outcome: Outcome) -> Mapping[str, Any]:
        """Figures after, for the table's ledger."""
        return outcome.data

    @abstractmethod
    def apply(self, plan: P, held: HeldLocks) -> Outcome:
        """Carry the plan out.

        Raises:
            LakewardError: the operation was refused, failed, or still runs.
        """

    def failure(self, error: BaseException) -> str:
        """The text recorded for an error; an operation overrides it where the error may quote a secret value."""
        return f"{error.what}: {error.why}" if isinstance(error, LakewardError) else str(error) or "interrupted"

    def answered(self, comment: str, approval: Approval | None) -> Self:
        """The same operation with a person's answers: the comment, if it was missing, and the approval of its plan."""
        made = copy.copy(self)
        made.request = replace(self.request, comment=self.request.comment or comment, approval=approval)
        return made

    def done(self, detail: str, data: Mapping[str, Any] | None = None, lines: tuple[str, ...] = ()) -> Outcome:
        """The outcome of an operation that succeeded."""
        return Outcome(self.name, self.kind, self.subject, "done", detail, {} if data is None else data, lines)

    def unchanged(self, why: str, data: Mapping[str, Any] | None = None) -> Outcome:
        """The outcome of an operation that changed nothing."""
        return replace(self.done(why, data), result="skipped")

    def record_change(
        self, connection: Connection, detail: Mapping[str, Any], *, of: tuple[str, str] | None = None
    ) -> None:
        """Record the audited change in the transaction that makes it; `of` names another subject."""
        kind, subject = of or (self.kind, self.subject)
        approval = self.request.approval
        by = {} if approval is None else {"approved_by": approval.by}
        author, comment = self.context.author, self.request.comment
        changes.record(connection, kind, subject, self.name, author=author, comment=comment, **{**detail, **by})
