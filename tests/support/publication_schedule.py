"""Random schedules of a table and its check runs: does `verified` ever show what nobody proved?

    python tests/support/publication_schedule.py 0-19,25 < runtime.json      a JSON line a seed
    python tests/support/publication_schedule.py "0-99:FAULT" < runtime.json   a guard taken out, until a seed finds it
    python tests/support/publication_schedule.py faults                       the guards that can be taken out

Real tables, registry, Spark Connect server and Great Expectations; the functions of a run as the checking process calls
them. A run may be killed at a named step, or something happens at it: commits, compaction, expiry, a rollback, a second
run from beginning to end, the end of a waiver. A process of its own, set up as the checking process is.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from time import monotonic, process_time
from typing import Any

import structlog
from publications_events import NAMESPACE, SCHEMA, TRACED, Happenings
from publications_steps import PLANTED, QUIET, STEPS, Killed, at_steps, planted

from lakeward.connectors.spark.connect import session
from lakeward.platform.runtime import Runtime
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.order import RunOrder
from lakeward.quality.runs.run import run
from lakeward.registry import incidents, verifications

EVENTS = {
    "land": 8, "land-null": 2, "land-text": 1, "land-slow": 1, "land-huge": 0.3, "check": 14, "compact": 1.2,
    "expire": 1.5, "update": 1, "merge": 0.5, "mend": 3, "roll-back": 1.2, "rename": 0.5, "rename-back": 1,
    "waive": 1.2, "waiver-over": 1, "release": 0.8, "drop-branch": 0.4, "move-branch": 0.4, "replace": 0.2,
}  # fmt: skip
BESIDE = {
    "kill": 8, "land": 2, "land-null": 2, "check": 4, "roll-back": 2, "compact": 1, "expire": 1, "waiver-over": 1,
    "mend": 1,
}  # fmt: skip
"""What happens at a step of a run."""
WIDER = 170
"""Schedules of seeds from here on have the following events, too, those of `TRACED` tables apart; the earlier ones, and
those, are what they were when their lines were written."""
MORE_EVENTS = {"lapse": 1, "check-part": 1.5}
MORE_BESIDE = {"overtake": 3}


class Publications(Happenings):
    """One table, what happens to it and its runs.

    Args:
        seed: of every choice.
        engines: what runs work with; a second run, beside one under way, has the second.
        fault: the guard that is taken out; empty for none.
    """

    def __init__(self, seed: int, engines: list[Engines], fault: str = "", steps: int = 14) -> None:
        super().__init__(seed, engines[0])
        self.runs, self.fault, self.steps = engines, fault, steps
        self.log: list[str] = []
        self.killed: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        wider = WIDER <= seed < TRACED
        self.events = EVENTS | (MORE_EVENTS if wider else {})
        self.beside = BESIDE | (MORE_BESIDE if wider else {})
        self.wrong = ""
        self._depth = 0

    def run(self) -> str:
        """Carry the schedule out; what went wrong, or nothing."""
        mode = self.random.choice(["copy-on-write", "merge-on-read"])
        modes = {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}
        if self.traced:
            table_properties = ", ".join(
                f"'{key}' = '{value}'" for key, value in {"format-version": "3", **modes}.items()
            )
            columns = "id BIGINT, carrier STRING, delay DOUBLE"
            self._sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg TBLPROPERTIES ({table_properties})")
        else:
            self.lake.create_table(self.name, SCHEMA, properties={"format-version": "2", **modes})
        try:
            with ExitStack() as held:
                held.enter_context(planted(self.fault, self.engines, self.name))
                self._event("land")
                while len(self.log) < self.steps and not self.wrong:
                    self._event(self._draw(self.events))
                if not self.wrong:
                    self._end()
        finally:
            self._forget()
        return self.wrong

    # What happens -----------------------------------------------------------------------------------------------------

    def _draw(self, weights: Mapping[str, float]) -> str:
        return self.random.choices(list(weights), list(weights.values()))[0]

    def _event(self, name: str) -> None:
        self.log.append(name)
        act: Callable[[], None] = getattr(self, f"_{name.partition('-')[0]}_{name.partition('-')[2] or 'it'}")
        act()
        self._look(name)

    def _look(self, after: str) -> None:
        self.wrong = self.wrong or self.oracle.look(main_went_back=self.rollbacks > 0)
        if self.wrong and not self.wrong.endswith(")"):
            self.wrong += f" (after {after}; step {len(self.log)})"

    def _end(self) -> None:
        """Nothing happens any more: one run, and the branch is where it can be."""
        if self.renamed:
            self._event("rename-back")
        head = self.table.current_snapshot()
        if head is not None and head.schema_id != self.table.metadata.current_schema_id:
            self._event("land")  # a whole table is read with the columns of its newest commit
        self._check(quiet=True)
        self._look("the last run")
        self.wrong = self.wrong or self.oracle.behind(self.waived)

    # Runs -------------------------------------------------------------------------------------------------------------

    def _check_it(self) -> None:
        self._check(quiet=self.random.random() < 0.4)

    def _check_part(self) -> None:
        """A run that ends before the head, as the one after rows were put aside does."""
        line = [each.id for each in self.oracle.history().ancestry(self.oracle.history().head)]
        self._check(quiet=self.random.random() < 0.4, upto=self.random.choice(line[:3]))

    def _check(self, *, quiet: bool = False, upto: int | None = None) -> None:
        """One run; at one of its steps something happens, unless it is quiet."""
        step = "" if quiet else self.random.choice(STEPS)
        beside = "kill" if step in QUIET else self._draw(self.beside)
        engines, done, unseen = self.runs[self._depth], False, self.rollbacks
        stood = self.oracle.history()
        waived, looked = set(self.waived), self.oracle.history().up_to(upto).head

        def stand(at: str) -> None:
            nonlocal waived, looked, done, step, stood
            if self._depth != depth:
                return  # a step of the run inside
            if at == "after-looking":
                looked = self.oracle.history().up_to(upto).head
            if at == "before-looking":
                waived = set(self.waived)
            if at == "before-moving":
                self._note(looked, waived)
            if at in ("after-moving", "moving", "before-moving"):
                self._look(at)
            if at == "moving":
                stood = self.oracle.history()
            if at == "after-moving":
                self.wrong = self.wrong or self.oracle.moved(stood)
            if at == step and not done:
                done = True
                self._stand(at, beside)

        self._depth += 1
        depth = self._depth
        try:
            with at_steps(stand):
                results = run(RunOrder({self.name: self.suite}, upto=upto), engines)
            self.verdicts.update(each.verdict.value for each in results)
            self.oracle.by_hand = None
            self.rollbacks -= unseen
        except Killed:
            pass
        finally:
            self._depth -= 1

    def _note(self, looked: int | None, waived: set[str]) -> None:
        """The branch is about to be moved: was it a run that was kept?"""
        if looked is None or looked in self.oracle.proven:
            return
        with self.engines.registry() as connection:
            proof_heads = {each["to_snapshot"] for each in _proofs(connection, self.name)}
        if looked in proof_heads:
            self.oracle.note_held(looked, waived)

    def _stand(self, at: str, beside: str) -> None:
        self.log.append(f"{at}: {beside}")
        if beside == "kill":
            self.killed[at] += 1
            raise Killed
        if beside == "check":
            if self._depth < len(self.runs):
                self._check(quiet=True)
            return
        if beside == "overtake":  # rows land, and another run proves them first
            self._land()
            if self._depth < len(self.runs):
                self._check(quiet=True)
            return
        self._event(beside)

    def _forget(self) -> None:
        self.lake.drop_table(self.name)
        with self.engines.registry() as connection:
            for kind, subject in incidents.open_ones(connection):
                if subject.startswith(self.name):
                    incidents.closed(connection, kind, subject, "the schedule is over")


_proofs = verifications.proofs  # the very function: a planted fault stands in its place


def engines_of(runtime: Runtime, held: ExitStack) -> list[Engines]:
    """Engines for a run and for one beside it; Great Expectations is imported once."""

    def make() -> Engines:
        return Engines(
            runtime,
            runtime.registry_url_file.read_text().strip(),
            lambda own_id: held.enter_context(session(runtime, session_id=own_id)),
        )

    made = [make(), make()]
    made[0].lake.create_namespace_if_not_exists(NAMESPACE)
    return made


def one(seed: int, engines: list[Engines], fault: str = "") -> dict[str, Any]:
    """The schedule of a seed, as a line of the results."""
    began, cpu = monotonic(), process_time()
    schedule = Publications(seed, engines, fault)
    wrong = schedule.run()
    taken_out = {"taken_out": fault} if fault else {}
    return {
        "seed": seed, **taken_out, "ok": not wrong, "wrong": wrong, "steps": schedule.log,
        "verdicts": dict(schedule.verdicts), "killed": dict(schedule.killed),
        "published": len(schedule.oracle.proven), "wall_s": round(monotonic() - began, 2),
        "client_cpu_s": round(process_time() - cpu, 2),
    }  # fmt: skip


def _seeds(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def main() -> None:
    """A line a seed."""
    if sys.argv[1] == "faults":
        print(json.dumps(list(PLANTED)))
        return
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    runtime = Runtime.model_validate_json(sys.stdin.read())
    with ExitStack() as held:
        made = engines_of(runtime, held)
        for word in sys.argv[1:]:
            seeds, _, fault = word.partition(":")
            for seed in _seeds(seeds):
                row = one(seed, made, fault)
                print(json.dumps(row), flush=True)
                if fault and not row["ok"]:
                    break


if __name__ == "__main__":
    main()
