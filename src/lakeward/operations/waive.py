"""waive and unwaive: excuse the failures of a check until a time, or end such a waiver."""

from __future__ import annotations

from datetime import datetime

from lakeward.operations.context import Context
from lakeward.operations.operation import HeldLocks, Lock, Operation
from lakeward.operations.request import Outcome, Plan, Request
from lakeward.platform.text import minute
from lakeward.quality.verdicts import waive as waivers
from lakeward.spec.model.types import Duration


class OfCheck(Operation[Plan]):
    """An operation on one check of one table.

    Args:
        check, check_name: id and name of the check.
    """

    kind = "table"
    lock = Lock.NONE

    def __init__(self, context: Context, request: Request, check: str, check_name: str) -> None:
        super().__init__(context, request)
        self.check, self.check_name = check, check_name


class Waive(OfCheck):
    """Excuses failures of the check until a time. Replaces an existing waiver."""

    name = "waive"
    needs_comment = True

    def __init__(
        self, context: Context, request: Request, check: str, check_name: str, until: datetime | Duration
    ) -> None:
        super().__init__(context, request, check, check_name)
        self.until = until

    def plan(self) -> Plan:
        return Plan(f"excuse failures of {self.check_name} until {self.until}")

    def apply(self, plan: Plan, held: HeldLocks) -> Outcome:
        author, reason = self.context.author, self.request.comment
        with self.context.connect() as connection:
            made = waivers.waive(
                connection, self.subject, self.check, self.check_name, self.until, author=author, reason=reason
            )
        detail = f"waived until {minute(made.until)} by {made.author}: {made.reason}"
        return self.done(detail, {"check": self.check, "name": self.check_name, "until": made.until})


class Unwaive(OfCheck):
    """Ends a waiver early. Snapshots that were published under it stay published."""

    name = "unwaive"

    def plan(self) -> Plan:
        return Plan(f"end the waiver of {self.check_name}")

    def apply(self, plan: Plan, held: HeldLocks) -> Outcome:
        with self.context.connect() as connection:
            ended = waivers.unwaive(
                connection, self.subject, self.check, author=self.context.author, comment=self.request.comment
            )
        detail = f"the waiver by {ended.author} until {minute(ended.until)} has ended"
        return self.done(detail, {"check": self.check, "name": self.check_name})
