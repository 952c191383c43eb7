"""What every operation is: a plan that touches nothing, and its application. `runner` does what they all need."""

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
from lakeward.registry import changes
from lakeward.tables.guard.actor import Actor

P = TypeVar("P", bound=Plan)


class Lock(Enum):
    """What nobody else may have from before the plan is made until the end."""

    NONE = "nothing"
    STREAM = "the operation ticket of the stream"
    REBUILD = "the stream's rebuild: the stream itself is operated on until its tables are swapped"
    TABLE = "the lease of the table"


@dataclass
class Held:
    """What the runner holds for an operation while it is applied.

    Attributes:
        tables: leases of tables.
        streams: by stream, to wait for it.
        drained: the streams that were stopped for it and are to run again.
    """

    tables: list[Actor] = field(default_factory=list)
    streams: dict[str, Waiting] = field(default_factory=dict)
    drained: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raises:
        Refused: somebody took a stream or a table over meanwhile.
        """
        for waiting in self.streams.values():
            waiting.keep()
        for actor in self.tables:
            actor.check()


class Operation(ABC, Generic[P]):
    """One operation on one stream or table. A new one for every request.

    Attributes:
        name: as people and the registry read it.
        kind: of what `subject` is.
        lock: what is held from before the plan on.
        needs_comment, needs_approval: it cannot do without a reason, or a person's approval of just its plan.
        clears_block: whether a stream that was drained is not blocked any more when it is done.
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
        """In the middle of a sentence."""
        return f"{self.name} of {'stream ' if self.kind == 'stream' else ''}{self.subject}"

    @property
    def command(self) -> str:
        """That does it without Airflow, for `next` of an error."""
        return f"lakeward {self.kind}s {self.name} {self.subject}"

    def exists(self) -> None:
        """Raises:
        SpecError: there is no such stream or table.
        """

    def unfinished(self) -> P | None:
        """What an earlier run left half done when it was killed. It is finished first, by the approval of that run."""
        return None

    def completes(self, left: P) -> bool:
        """Whether finishing that is all that was asked for."""
        return True

    @abstractmethod
    def plan(self) -> P:
        """What would be done.

        Raises:
            SpecError: there is no such stream or table, or what was asked for cannot be read.
            Refused: it cannot be done as things are.
        """

    def drained_plan(self, plan: P) -> P:
        """The plan once more, now that the streams stand still."""
        return self.plan()

    def resources(self, plan: P) -> AbstractContextManager[Any]:
        """What is open while it is prepared and applied, e.g. a Spark session."""
        return nullcontext()

    def prepare(self, plan: P) -> None:
        """Do what can be done before its streams are held or drained."""

    def ledger(self, plan: P) -> Mapping[str, Any] | None:
        """What the table's ledger keeps as it was before; None: it has no row there."""
        return None

    def ledger_after(self, outcome: Outcome) -> Mapping[str, Any]:
        """What the table's ledger keeps as it is after."""
        return outcome.data

    @abstractmethod
    def apply(self, plan: P, held: Held) -> Outcome:
        """Do it.

        Raises:
            LakewardError: it was refused, failed, or is still going on.
        """

    def failure(self, error: BaseException) -> str:
        """What is recorded of an error; names no value that must not be kept."""
        return f"{error.what}: {error.why}" if isinstance(error, LakewardError) else str(error) or "interrupted"

    def answered(self, comment: str, approval: Approval | None) -> Self:
        """The same operation with a person's answers: why, where that was not said, and the approval of its plan."""
        made = copy.copy(self)
        made.request = replace(self.request, comment=self.request.comment or comment, approval=approval)
        return made

    def done(self, detail: str, data: Mapping[str, Any] | None = None, lines: tuple[str, ...] = ()) -> Outcome:
        """It was done."""
        return Outcome(self.name, self.kind, self.subject, "done", detail, {} if data is None else data, lines)

    def record_change(
        self, connection: Connection, detail: Mapping[str, Any], *, of: tuple[str, str] | None = None
    ) -> None:
        """The audited change, in the transaction that makes it; `of` another subject than the operation's."""
        kind, subject = of or (self.kind, self.subject)
        approval = self.request.approval
        by = {} if approval is None else {"approved_by": approval.by}
        author, comment = self.context.author, self.request.comment
        changes.record(connection, kind, subject, self.name, author=author, comment=comment, **{**detail, **by})
