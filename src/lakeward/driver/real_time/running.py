"""A hop that was started: how it is stopped, and when its records are accounted for."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.driver.real_time.accounting import RecordAccounting
from lakeward.driver.real_time.stop import halt
from lakeward.driver.running import Running
from lakeward.engine.gate import wait_until

SETTLE_S = 60.0
"""How long a stop waits for the last records to be accounted for; the next start does what is left."""


@dataclass
class RunningRealTimeQuery(Running):
    """One start of one hop. It has no gate between batches, so a stop follows the boundary at once."""

    accounts: RecordAccounting = field(kw_only=True)

    def drain(self) -> None:
        """Stop right after the next boundary."""
        if self.accounts.stop_after is None:
            self.accounts.stop_after = self.accounts.newest

    @property
    def _asked(self) -> bool:
        return self.accounts.stop_after is not None

    def drained(self) -> bool:
        """Whether it has been stopped at its boundary."""
        return not self.active

    def stop(self, timeout_s: float) -> bool:
        """Stop at a boundary; True when it was one.

        After `timeout_s` it is stopped where it is: what left since the last boundary comes again after the next start.
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
        """Give back what the session holds, and end the accounting."""
        self.accounts.close()
        super().release()
