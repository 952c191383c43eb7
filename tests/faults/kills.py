"""The campaign of kills: one stack, one busy driver, and a SIGKILL at a random moment, again and again.

A trial is a seed: it decides the moment within the batch and what is killed (the Python process, the JVM, all of it).
Measured from the kill, in the registry's clock: until somebody noticed (the death is recorded), until the next launch,
until the next batch is in the table. One JSON line a trial; a seed that stands there is not run again. At the end the
topic is read back against the table: nothing may be missing or doubled, whatever the trials were.

    python tests/faults/kills.py --seeds 1-50
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import busy
from busy import Busy, Watched
from campaign import ROOT, seeds
from sqlalchemy import delete, func, select

from lakeward.registry import drivers
from lakeward.registry.schema import restarts

RESULTS = ROOT / "docs" / "explanation" / "kills.jsonl"
NOTICED_S, COMMITTING_S = 20.0, 75.0
"""What is promised of every single trial."""


class Trials(Busy):
    """Kills the driver of one stand, trial by trial."""

    def run(self, seed: int) -> dict[str, Any]:
        """One trial, begun while the stream lands batch after batch."""
        dice = random.Random(f"{seed}/kills")  # repeatable is what is wanted
        self.landing()
        time.sleep(dice.uniform(0.0, 12.0))  # somewhere in a batch, or between two
        token, seq = self.token(), self.seq()
        begun = self.now()
        told = self.stand.kill_driver(dice)
        return aftermath(self, begun, token, told, lambda: self.now() if self.seq() > seq else None)


def aftermath(
    driver: Watched, begun: datetime, token: str, told: str, landed: Callable[[], datetime | None]
) -> dict[str, Any]:
    """The seconds from a kill until it was noticed, until the next launch, and until something is landed again."""
    noticed = driver.when("the death is recorded", lambda: _recorded_since(driver, begun))
    launched = driver.when("a new driver is launched", lambda: _launched_after(driver, token))
    again = driver.when("a batch is landed again", landed)
    # Each trial is a first failure: what grows from failure to failure is not what is measured here.
    with driver.stand.registry() as connection:
        connection.execute(delete(restarts).where(restarts.c.driver == driver.driver))
    took = {
        "noticed_s": round((noticed - begun).total_seconds(), 1),
        "launched_s": round((launched - begun).total_seconds(), 1),
        "committing_s": round((again - begun).total_seconds(), 1),
    }
    return {
        "ok": took["noticed_s"] <= NOTICED_S and took["committing_s"] <= COMMITTING_S,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "kill": told,
        **took,
    }


def _recorded_since(driver: Watched, moment: datetime) -> datetime | None:
    with driver.stand.registry() as connection:
        newest = select(func.min(restarts.c.at)).where(restarts.c.driver == driver.driver, restarts.c.at > moment)
        return connection.execute(newest).scalar_one()  # type: ignore[no-any-return]  # a timestamp or None


def _launched_after(driver: Watched, token: str) -> datetime | None:
    with driver.stand.registry() as connection:
        row = drivers.find(connection, driver.driver)
    return row.launched_at if row is not None and row.token != token else None


def summary(lines: list[dict[str, Any]]) -> str:
    """The distribution in one line a figure."""
    told = []
    for name in ("noticed_s", "launched_s", "committing_s"):
        values = sorted(line[name] for line in lines)
        if values:
            p95 = values[min(len(values) - 1, round(0.95 * len(values)))]
            told.append(f"{name}: median {statistics.median(values):.1f}, p95 {p95:.1f}, worst {values[-1]:.1f}")
    return "\n".join(told)


def main(argv: list[str] | None = None) -> int:
    """Run the trials that are missing, then prove; exit code 0 only if all of it held."""
    parser = busy.arguments_of(__doc__, RESULTS, "kills")
    parser.add_argument("--seeds", type=seeds, default=seeds("1-50"), help="e.g. 1-50 or 1,4,7-9")
    options = parser.parse_args(argv)
    lines, proof = busy.run(options.seeds, options.results, options.home, lambda stand: Trials(stand).run)
    print(summary(list(lines.values())))
    return 0 if proof.get("ok", True) and all(line["ok"] for line in lines.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
