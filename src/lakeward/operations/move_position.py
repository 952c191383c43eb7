"""What reset and skip-batch share: stop the stream, move its position, let it run on."""

from __future__ import annotations

from abc import abstractmethod

from lakeward.operations.operation import Act, P
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import LakewardError
from lakeward.registry import streams


class Moving(Act[P]):
    """An operation that moves the position of a stream that does not run. It waits for a person's approval."""

    asks = True

    @abstractmethod
    def move(self, plan: P, waiting: Waiting) -> str:
        """Move it, now that nothing lands any more, and tell what was done.

        Raises:
            Refused: it is not any more what was approved.
            Fenced: a driver nobody knew of landed a batch meanwhile; nothing was changed.
        """

    def do(self, plan: P, waiting: Waiting) -> str:
        again = waiting.aside(kill=self.request.kill)
        try:
            detail = self.move(plan, waiting)
        except (LakewardError, KeyboardInterrupt):
            if again:
                waiting.as_before()
            raise
        if not again:
            return f"{detail}; the stream stays stopped"
        with self.site.connect() as connection:
            self.want(connection, streams.get(connection, self.stream), "running")
        if not self.request.wait:
            self.site.reconcile()
            return f"{detail}; asked to run again"
        return f"{detail}; {waiting.started('started again')}"
