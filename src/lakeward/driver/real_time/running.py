"""A running real-time query: stop at a boundary, wait for the record accounting."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.driver.real_time.accounting import RecordAccounting
from lakeward.driver.real_time.stop import halt
from lakeward.driver.running import Running
from lakeward.engine.gate import wait_until

SETTLE_S = 60.0
"""How long a stop waits for the record accounting; the next start accounts for the rest."""


@dataclass
class RunningRealTimeQuery(Running):
    """One start of a real-time query. It has no gate between batches: a stop follows right after a boundary."""

    accounts: RecordAccounting = field(kw_only=True)

    def drain(self) -> None:
        """Stop right after the next boundary."""
        if self.accounts.stop_after is None:
            self.accounts.stop_after = self.accounts.newest

    @property
    def _stop_requested(self) -> bool:
        return self.accounts.stop_after is not None

    def drained(self) -> bool:
        """Whether it has been stopped at its boundary."""
        return not self.active

    def stop(self, timeout_s: float) -> bool:
        """Stop at a boundary; returns whether it was one.

        After `timeout_s` it is stopped anyway: records since the last boundary are sent again after the next start.
        """
        self.drain()
        clean = wait_until(lambda: not self.active, timeout_s)
        self._halt()
        if clean:
            self.accounts.settled(SETTLE_S)
        self.gate.close()
        self._end()
        return clean

    def _halt(self) -> None:
        halt(self.query, self.session)

    def release(self) -> None:
        """Release the resources of the session, and end the accounting."""
        self.accounts.close()
        super().release()
