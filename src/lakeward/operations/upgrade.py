"""upgrade: the pending generation takes over at a batch boundary and must prove stable, or it is rolled back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select

from lakeward.operations import sink_position
from lakeward.operations.context import ObservedStream
from lakeward.operations.generation import accept_again
from lakeward.operations.operation import HeldLocks
from lakeward.operations.request import Outcome, Plan, StreamOperation
from lakeward.operations.stream import OnStream, spec_of
from lakeward.platform.errors import Refused, Unhealthy
from lakeward.platform.text import span
from lakeward.registry import batches, generations, streams
from lakeward.registry.generations import Generation
from lakeward.registry.streams import Stream
from lakeward.spec.deploy.plan import checkpoint_obstacles, differences
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision import stabilization
from lakeward.supervision.decide.health import State, idle
from lakeward.supervision.decide.stability import BATCHES, OF_THE_GENERATION, Proving, within

LONGEST_S = 1800.0
"""Longest wait for the proof of stability; the proof continues without the waiting command."""
QUIET_S = 60.0
"""A stream that has landed a batch of the new generation is idle after so long without another."""


@dataclass(frozen=True)
class UpgradePlan(Plan):
    """From generation `before` to `after`."""

    before: int = 0
    after: int = 0
    driver: str = ""
    within: timedelta = timedelta(0)


class Upgrade(OnStream[UpgradePlan]):
    """Refused before anything stops if the new generation does not fit the checkpoint or fails analysis."""

    name = StreamOperation.UPGRADE.value

    def plan(self) -> UpgradePlan:
        row = self.row()
        if row.pending_generation is None:
            raise Refused(
                f"Stream {row.id} has no pending generation",
                why=f"generation {row.generation} is the newest one and is accepted",
                next="change its file, then: lakeward deploy",
                code="LW-2089",
            )
        if row.proving is not None:
            raise Refused(
                f"Cannot upgrade stream {row.id} while generation {row.proving['generation']} is being proven",
                why=f"the proof runs until {row.proving['until']}; another upgrade would leave both unproven",
                next=f"wait, or roll back: lakeward streams rollback {row.id}",
                code="LW-2090",
            )
        before, after = self.generation(row.generation), self.generation(row.pending_generation)
        old, new = spec_of(before), spec_of(after)
        continues(row, old, new, after)
        wrong = self.context.analyse(new, sink_position.columns(self.context.runtime, new), self.context.runtime)
        if wrong:
            raise Refused(
                f"Generation {after.generation} of stream {row.id} fails analysis; nothing was stopped",
                why="\n        ".join(wrong),
                next=f"correct conf/streams/{row.id}.yaml, then: lakeward deploy",
                code="LW-2091",
            )
        changed = ", ".join(differences(old, new)) or "nothing in the spec"
        return UpgradePlan(
            f"run generation {after.generation} instead of {before.generation} from the next batch on: {changed}",
            (f"from generation {before.generation} ({before.author}) to {after.generation} ({after.author})",),
            {"from_generation": before.generation, "to_generation": after.generation},
            f"{before.generation}/{after.generation}",
            before.generation,
            after.generation,
            str(new.driver),
            within(new.trigger.interval),
        )

    def apply(self, plan: UpgradePlan, held: HeldLocks) -> Outcome:
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            if (row.generation, row.pending_generation) != (plan.before, plan.after):
                raise Refused(
                    f"Cannot upgrade stream {row.id}; it was deployed since the plan was made",
                    why=f"the pending generation is {row.pending_generation} now; nothing was changed",
                    next=f"lakeward streams upgrade {row.id}",
                    code="LW-2093",
                )
            number = self._accept(connection, plan)
            self.changed(connection, {"generation": plan.before}, {"generation": number})
            if row.desired == "running":
                streams.set_desired(
                    connection, [row.id], "running"
                )  # a block of the old generation need not apply to this one
                streams.set_proving(connection, row.id, self._proving(connection, row, number, plan.within).stored())
        if row.desired != "running":
            return self.done(f"generation {number} is accepted; the stream is stopped and the next start runs it")
        if not self.request.wait:
            later = self.context.reconcile()
            return self.done(
                f"generation {number} takes over at the next batch boundary{later}; unless it lands {BATCHES} batches "
                f"within {span(plan.within.total_seconds())} with lag under the limits, it is rolled back"
            )
        self.context.say(
            f"generation {number} of {self.stream} takes over at the next batch boundary; waits for its proof: "
            f"{BATCHES} batches landed within {span(plan.within.total_seconds())}, lag under the limits. Ends earlier "
            "if nothing waits at the source, or if it is rolled back; Ctrl+C ends only the wait"
        )
        waited = held.streams[self.stream].wait_until(
            lambda seen: seen.row.proving is None or seen.row.generation != number or self._idle(seen, number),
            "proven",
            usual_s=min(plan.within.total_seconds() + 300.0, LONGEST_S),
            tolerates=_will_be_rolled_back,
            missing=self._missing,
        )
        return self.done(self._result(number, waited))

    def _idle(self, seen: ObservedStream, number: int) -> bool:
        """Whether the generation polls its source and no record comes: its proof may take as long as none does."""
        last = seen.facts.observations.get(self.stream)
        if last is None or last.query_state != "idle" or not idle(last) or seen.verdict.state is not State.HEALTHY:
            return False
        began = self.began(number)
        if began is None or last.at < began:
            return False
        landed = last.committed_at is not None and last.committed_at > began
        return not landed or (last.commit_age_s or 0.0) > QUIET_S

    def _missing(self, seen: ObservedStream) -> str | None:
        """What its proof still needs, in words."""
        with self.context.connect() as connection:
            return stabilization.progress(connection, seen.facts, self.stream)

    def _accept(self, connection: Connection, plan: UpgradePlan) -> int:
        """Accept the pending generation; under a new number if the checkpoint was replaced since it was deployed."""
        before, after = self.generation(plan.before), self.generation(plan.after)
        if after.checkpoint != before.checkpoint:
            return accept_again(connection, after, before.checkpoint, self.context.author)
        streams.accept(connection, self.stream, generation=plan.after, driver=plan.driver)
        return plan.after

    def _proving(self, connection: Connection, row: Stream, number: int, time: timedelta) -> Proving:
        generation = generations.get(connection, row.id, row.generation)
        stable = generations.last_stable(connection, {row.id: number}).get(row.id)
        # Without a stable one, fall back to the generation that runs now, if it was never rolled back.
        running = (
            row.generation if generation is not None and generation.failed_at is None and row.blocked is None else None
        )
        now = connection.execute(select(func.now())).scalar_one()
        return Proving(number, stable or running, now, now + time, BATCHES, self.context.author)

    def _result(self, number: int, waited: str) -> str:
        after = self.generation(number)
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            landed = batches.landed(connection, {self.stream: (number, _since(row))}, BATCHES)[self.stream]
        if after.failed_at is not None or row.generation != number:
            raise Unhealthy(
                f"Generation {number} of stream {self.stream} was rolled back; generation {row.generation} runs again",
                why=after.failure or "a person rolled it back",
                next=f"lakeward streams events {self.stream}",
                code="LW-2092",
            )
        if row.proving is None:
            return f"generation {number} is stable, {waited}"
        first = f"{landed} of {BATCHES} batches landed" if landed else "its first batch is still to come"
        return (
            f"generation {number} runs and nothing waits at the source; {first}. Supervision goes on with its proof: "
            "time without records does not count"
        )


def continues(row: Stream, old: StreamSpec, new: StreamSpec, after: Generation) -> None:
    """Check that a generation can continue the checkpoint of the running one.

    Raises:
        Refused: it cannot; names what the checkpoint stores.
    """
    obstacles = list(checkpoint_obstacles(old, new))
    if obstacles:
        raise Refused(
            f"Generation {after.generation} of stream {row.id} cannot continue the checkpoint; nothing was stopped",
            why="\n        ".join(obstacles),
            next=f"give the changed stream another id and table (conf/streams/{row.id}.yaml), then: lakeward deploy",
            code="LW-2088",
        )


def _since(row: Stream) -> datetime | None:
    """Since when batches count for the proof; None if it is over."""
    return None if row.proving is None else Proving.of(row.proving).since


def _will_be_rolled_back(seen: ObservedStream) -> bool:
    blocked, proving = seen.row.blocked, seen.row.proving
    return bool(
        blocked and proving and proving.get("previous") is not None and blocked.get("reason") in OF_THE_GENERATION
    )
