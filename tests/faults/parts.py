"""The campaign of Airflow's parts: each killed under load, kept away for a while, and brought back.

A driver is nobody's child: no part of Airflow may take one with it, and nobody may start one again because Airflow, the
backend or the registry was away. A trial is a part and how long it is away. Afterwards: the same launch of every
driver, no recorded restart, and every stream is what it should be within one pass. One JSON line a trial; what stands
there is not run again. At the end the topic is read back against the table.

    python tests/faults/parts.py
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import busy
import psutil
from busy import Busy
from campaign import ROOT
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from lakeward.platform.errors import DependencyDown
from lakeward.registry import heartbeats
from lakeward.registry.schema import restarts
from lakeward.stack.supervisor import Supervisor
from lakeward.supervision import observe
from lakeward.supervision.reconcile import backend_of

RESULTS = ROOT / "docs" / "explanation" / "parts.jsonl"
TASK = "task runner"
AIRFLOW = ("airflow-scheduler", "airflow-triggerer", "airflow-api-server", "airflow-dag-processor")
TRIALS = {
    f"{part}, {away} s": (part, away)
    for part, away in [(TASK, 0), ("postgres", 60), *((part, away) for away in (60, 300) for part in AIRFLOW)]
}


class Trials(Busy):
    """Takes parts of one stand away, trial by trial."""

    def run(self, name: str) -> dict[str, Any]:
        """One trial, begun while the stream lands batch after batch."""
        part, away = TRIALS[name]
        self.landing()
        token, seq, begun = self.token(), self.seq(), self.now()
        if part == TASK:
            told = self._kill_task()
        else:
            told = self._kill_part(part)
            time.sleep(away)
        meanwhile = self._seq_or(seq) - seq
        if part != TASK:
            self._supervisor.launch(part)
        back = time.monotonic()
        self.when(f"{part} is well", lambda: self._well() or None, self._clock)
        well = self.now()
        well_s = time.monotonic() - back
        self.when("a pass after that", lambda: self._passed(well))
        states = self._states()
        landing = self.seq()
        self.when("a batch lands after that", lambda: self.seq() > landing or None, self.now)
        problems = [f"{stream} is {word}" for stream, word in states.items() if word != "healthy"]
        if self.token() != token:
            problems.append("the driver was launched again")
        if count := self._restarts(begun):
            problems.append(f"{count} restarts are recorded")
        return {
            "ok": not problems,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "kill": told,
            "batches_meanwhile": meanwhile,
            "well_s": round(well_s, 1),
            "pass_s": round((self.now() - well).total_seconds(), 1),
            "states": states,
            "problems": problems,
        }

    @property
    def _supervisor(self) -> Supervisor:
        return Supervisor(self.stand.home)

    def _kill_part(self, part: str) -> str:
        """SIGKILL to the part's processes; the supervisor is told not to start it again."""
        pid = self._supervisor.observe()[part].pid
        if part == "postgres":  # the issue is that it is away, not that it crashes: that is tests/faults/test_stack.py
            self._supervisor.stop(part, wait=True)
            return f"{part} ({pid}) was stopped"
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._supervisor.stop(part, wait=False)
        return f"SIGKILL to {part} ({pid}) and {len(family) - 1} below it"

    def _kill_task(self) -> str:
        """SIGKILL to the process that carries out a reconcile task."""
        scheduler = psutil.Process(self._supervisor.observe()["airflow-scheduler"].pid)
        known = {process.pid for process in scheduler.children(recursive=True)}
        self.stand.airflow.trigger("streams_reconcile", {}, "a campaign")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            fresh = [process for process in scheduler.children(recursive=True) if process.pid not in known]
            for process in reversed(fresh):
                with suppress(psutil.NoSuchProcess, ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                    return f"SIGKILL to the process of a task ({process.pid})"
            time.sleep(0.02)
        raise TimeoutError("no task was started within 60 s")

    def _well(self) -> bool:
        return all(part.state == "up" for part in self.stand.stack.status())

    @staticmethod
    def _clock() -> datetime:
        return datetime.now(UTC)

    def _passed(self, moment: datetime) -> datetime | None:
        with self.stand.registry() as connection:
            newest = heartbeats.newest(connection, "reconcile")
        return newest.at if newest is not None and newest.at > moment else None

    def _states(self) -> dict[str, str]:
        with self.stand.registry() as connection:
            facts = observe.read(connection)
        seen = observe.verdicts(facts, observe.observed_jobs(backend_of(self.stand.runtime), facts))
        return {stream: verdict.state.value for stream, verdict in seen.items()}

    def _seq_or(self, known: int) -> int:
        """How many batches the table has; with the catalog away, as many as before."""
        try:
            return self.seq()
        except (DependencyDown, OperationalError):
            return known

    def _restarts(self, since: datetime) -> int:
        with self.stand.registry() as connection:
            counted = select(func.count()).select_from(restarts).where(restarts.c.at > since)
            return int(connection.execute(counted).scalar_one())


def main(argv: list[str] | None = None) -> int:
    """Run the trials that are missing, then prove; exit code 0 only if all of it held."""
    parser = busy.arguments_of(__doc__, RESULTS, "parts")
    options = parser.parse_args(argv)
    lines, proof = busy.run(list(TRIALS), options.results, options.home, lambda stand: Trials(stand).run)
    bad = [name for name, line in lines.items() if not line["ok"]]
    print(f"{len(lines)} trials, {len(bad)} did not hold{': ' if bad else ''}{'; '.join(bad)}")
    return 0 if proof.get("ok", True) and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
