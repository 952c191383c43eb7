"""rollback: run an earlier generation again, restored from the registry, without a checkout of the old files."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.operations.generation import accept_again
from lakeward.operations.operation import HeldLocks
from lakeward.operations.request import Outcome, Plan, StreamOperation
from lakeward.operations.stream import OnStream, spec_of
from lakeward.operations.upgrade import continues
from lakeward.platform.errors import Refused
from lakeward.registry import generations, streams
from lakeward.registry.deploy import versions
from lakeward.registry.generations import Generation
from lakeward.spec.deploy.plan import differences


@dataclass(frozen=True)
class RollbackPlan(Plan):
    """From generation `before` back to `target`."""

    before: int = 0
    target: int = 0


class Rollback(OnStream[RollbackPlan]):
    """Goes to the last stable generation or to a named one. Spec and SQL come from the registry."""

    name = StreamOperation.ROLLBACK.value

    def plan(self) -> RollbackPlan:
        row = self.row()
        before = self.generation(row.generation)
        target = self._target(before)
        old, new = spec_of(before), spec_of(target)
        if new.transform.python is not None and new.transform.code is None:
            raise Refused(
                f"Cannot restore generation {target.generation} of stream {row.id}",
                why=f"its transform is Python code ({new.transform.python}), and the code is not in the registry",
                next="check the old code out, then: lakeward deploy",
                code="LW-2064",
            )
        continues(row, old, new, target)
        changed = ", ".join(differences(new, old)) or "nothing in the spec"
        other = [
            f"{name} {was}, now {versions().get(name)}"
            for name, was in target.versions.items()
            if versions().get(name) != was
        ]
        lines = [f"what differs from generation {before.generation}: {changed}"]
        if other:
            lines.append(f"program versions are not restored; the generation was accepted with {', '.join(other)}")
        return RollbackPlan(
            f"run generation {target.generation} again instead of {before.generation}, from the next batch on",
            tuple(lines),
            {"from_generation": before.generation, "to_generation": target.generation},
            f"{before.generation}/{target.generation}",
            before.generation,
            target.generation,
        )

    def apply(self, plan: RollbackPlan, held: HeldLocks) -> Outcome:
        before, target = self.generation(plan.before), self.generation(plan.target)
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            number = target.generation
            same = target.checkpoint == before.checkpoint
            if same:
                still = generations.restore(connection, self.stream, number, before=plan.before)
            else:
                still = row.generation == plan.before
            if not still:
                raise Refused(
                    f"Cannot roll back stream {self.stream}; its generation changed since the plan was made",
                    why=f"the stream no longer runs generation {plan.before}; nothing was changed",
                    next=f"lakeward streams rollback {self.stream} --dry-run   shows the new plan",
                    code="LW-2066",
                )
            if not same:  # recover or reset made a new checkpoint since: that one continues
                number = accept_again(connection, target, before.checkpoint, self.context.author)
                streams.set_desired(connection, [self.stream], row.desired)
                streams.set_proving(connection, self.stream, None)
            if row.proving is not None and row.proving.get("generation") == plan.before:
                generations.mark_failed(connection, self.stream, plan.before, f"{self.context.author} rolled it back")
            self.changed(connection, {"generation": plan.before}, {"generation": number, "as": plan.target})
        if row.desired != "running":
            return self.done(f"generation {number} is accepted; the stream is stopped and the next start runs it")
        if not self.request.wait:
            return self.done(f"generation {number} takes over at the next batch boundary{self.context.reconcile()}")
        return self.done(
            held.streams[self.stream].wait_until(
                lambda seen: seen.runs and self.began(number) is not None, f"generation {number} runs again"
            )
        )

    def _forward(self, runs: int) -> str:
        """What goes to another generation than an earlier one."""
        if self.row().pending_generation is not None:
            return f"lakeward streams upgrade {self.stream} --wait   goes to the pending generation"
        if runs == 1:
            return f"change conf/streams/{self.stream}.yaml, then: lakeward deploy"
        return f"lakeward streams rollback {self.stream} --to-generation {runs - 1} --dry-run   shows what differs"

    def _target(self, before: Generation) -> Generation:
        number = self.request.generation
        if number is not None:
            if number >= before.generation:
                raise Refused(
                    f"Cannot roll back stream {self.stream} to generation {number}",
                    why=f"the stream runs generation {before.generation}; a rollback goes to an earlier one",
                    next=self._forward(before.generation),
                    code="LW-2067",
                )
            return self.generation(number)
        with self.context.connect() as connection:
            stable = generations.newest_stable(connection, self.stream, before=before.generation)
        if stable is None:
            first = before.generation == 1
            raise Refused(
                f"Stream {self.stream} has no stable generation to roll back to",
                why=f"it runs generation {before.generation}, "
                + ("the first one" if first else "and no earlier one was proven stable"),
                next=f"change conf/streams/{self.stream}.yaml, then: lakeward deploy; lakeward streams upgrade "
                f"{self.stream} --wait"
                if first
                else f"the one before it: lakeward streams rollback {self.stream} --to-generation "
                f"{before.generation - 1}",
                code="LW-2065",
            )
        return stable
