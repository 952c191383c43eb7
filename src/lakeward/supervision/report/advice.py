"""Advice: the next command for a stream, and its blast radius, for an on-call engineer who was just woken up."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakeward.platform.errors import code_in
from lakeward.platform.failures import Cause, FailureClass, judge
from lakeward.platform.text import listed, minute
from lakeward.registry.backpressure import Level
from lakeward.supervision.decide.health import State
from lakeward.supervision.decide.remedy import Situation, remedy
from lakeward.supervision.report.material import Material
from lakeward.telemetry.mask import mask

READS = "only reads; nothing changes"
AWAITED = frozenset({"LW-3108"})
"""Codes of failures that end when a person makes what is missing: no restart helps before."""


@dataclass(frozen=True)
class Step:
    """The next step.

    Attributes:
        command: the command to run; None if nothing is to be done.
        text: the step in a sentence, with the command if there is one.
        effect: what it changes and what it does not; empty if nothing is to be done.
    """

    command: str | None
    text: str
    effect: str = ""


def step(m: Material) -> Step:
    """The next step for one stream."""
    found = remedy(situation(m))
    command = None if found.command is None else mask(found.command)
    if found.text.startswith("it continues by itself"):
        return Step(command, found.text, READS)
    if found.command is None:
        watch = "a changed file does nothing until it is deployed and the stream upgraded"
        return Step(None, found.text, watch if found.acts else "")
    return Step(command, mask(found.text), effect(m, mask(found.acts)))


def situation(m: Material) -> Situation:
    """What the decision about the next step needs, of everything that is known."""
    name, spec = m.stream.id, m.view.spec(m.stream.id)
    pressed = m.facts.backpressure(name)
    held = m.stream.hold_until
    rejected = m.sources_read.quarantine
    paused = pressed is not None and pressed.level is not Level.RELEASED
    return Situation(
        stream=name,
        state=m.verdict.state,
        blocked=m.stream.blocked,
        spec=spec,
        pending=m.stream.pending_generation,
        presence=m.view.presence,
        cured=m.cured,
        table_next=m.halt.next if m.halt is not None else None,
        quarantine_next=next((each.next for each in (rejected, m.sources_read.late) if each and each.next), None),
        paused=(m.facts.table(name) or str(spec.sink.label if spec else name)) if paused else None,
        held=minute(held) if held is not None and held > m.facts.now else None,
        late=m.facts.late(name),
        awaited=_awaited(m),
        down=m.facts.down.get(name) or _unanswered(m),
        down_next=m.facts.down_next.get(name, "lakeward stack status"),
        deleted=_deleted(m),
    )


def _awaited(m: Material) -> str | None:
    """What a stream waits for that only people can make, e.g. its topic, as its failure says it; None otherwise."""
    failure = m.facts.failure(m.stream)
    if failure is not None and judge(text=failure.error).cause is Cause.DISK_FULL:
        return "free space on the disk that the failure names (df -h): it is tried again by itself"
    if failure is None or code_in(failure.error) not in AWAITED:
        return None
    lines = (line.strip() for line in failure.error.splitlines())
    return next((line.removeprefix("next:").strip() for line in lines if line.startswith("next:")), None)


def _unanswered(m: Material) -> str | None:
    """What does not answer this report, if no pass has said so yet.

    A stream that failed for another reason waits for that one.
    """
    failure, trouble = m.facts.failure(m.stream), m.sources_read.trouble
    runs = m.verdict.state in (State.HEALTHY, State.LAGGING)
    if not trouble or not (runs or (failure is not None and failure.failure_class == FailureClass.DEPENDENCY)):
        return None
    return trouble[0]


def _deleted(m: Material) -> str:
    """The topics that the stream waits for although it has landed from them: they were deleted."""
    failure, position = m.facts.failure(m.stream), m.sources_read.position
    if failure is None or position is None or code_in(failure.error) not in AWAITED:
        return ""
    first = failure.error.strip().splitlines()[0]
    missing = re.findall(r"[^\s,\[\]]+", first.partition(" has no topic ")[2])
    return ", ".join(topic for topic in missing if topic in position.topic_ids)


def effect(m: Material, text: str) -> str:
    """The blast radius of a command in a sentence; of several commands, joined with `then` or `or`."""
    commands = re.split(r"(lakeward [^,;)]+|ALTER TABLE [^,;)]+)", text)
    if len(commands) == 1:
        return _effect(m, text)
    between, effects = commands[::2], [_effect(m, command.strip()) for command in commands[1::2]]
    joins = ["; or: " if re.search(r"\bor\b", part) else "; then: " for part in between[1:-1]]
    return effects[0] + "".join(join + effect for join, effect in zip(joins, effects[1:], strict=True))


def _effect(m: Material, command: str) -> str:
    shared = m.view.other_streams(m.stream)
    others = (
        f"; {listed(shared)} in the same driver {'continues' if len(shared) == 1 else 'continue'}" if shared else ""
    )
    down = m.view.process_ended(m.stream)
    launched = f"launches driver {m.stream.driver}" + (f" together with {listed(shared)}" if shared else "")
    words = {
        "streams start": f"{launched if down else f'starts its query{others}'}; no row lands twice",
        "streams restart": f"ends its query at a batch boundary and starts it again{others}; "
        "no row is lost or lands twice",
        "streams recover": "creates a new checkpoint at the table's position, keeps the files of the old "
        f"one, and {launched if down else f'starts its query{others}'}; no row is lost or lands twice",
        "streams skip-batch": "skips all records of the batch permanently and counts them as skipped; needs approval",
        "streams reset": "moves the position: records in between are skipped or land again; needs approval",
        "streams upgrade": f"replaces its query by the new generation, and rolls it back if it lags{others}",
        "streams rollback": f"replaces its query by the previous generation{others}",
        "sql --write": "changes the table for every reader immediately; undo it in the same way",
        "tables restore": "moves the table, all positions and `verified` back together; needs approval",
        "deploy --retire": "registers changed files, starts new streams, and retires this one; its table stays",
        "deploy": "registers changed files as new generations; running streams are not restarted",
        "stack up": "starts the parts of the stack that are missing; streams that run continue",
        "init --dags": "writes the Dag files that are missing into dags/; changes no other file",
        "ALTER TABLE": "changes a property of the table for every writer; changes no row",
    }
    if "--dry-run" in command:
        return "only shows what it would do; without --dry-run it " + _effect(m, command.replace("--dry-run", ""))
    typed = command.removeprefix("lakeward ")
    if typed.startswith("streams recover") and "puts back" in command:
        return f"sets one property of the table, keeps the checkpoint, and {words['streams start']}"
    known = next((text for start, text in words.items() if typed.startswith(start)), None)
    if known is not None:
        return known
    reads = ("streams logs", "streams status", "streams audit", "stack status")
    return READS if typed.startswith(reads) else "not known: read the whole text before you start"
