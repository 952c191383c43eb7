"""What to do now: one command, and what it touches. Whoever reads it has been awake for two minutes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakeward.platform.text import listed
from lakeward.registry.backpressure import Level
from lakeward.supervision.decide.health import State
from lakeward.supervision.report.material import Material
from lakeward.telemetry.mask import mask

RUNBOOK = "docs/runbooks/on-call.md"
READS = "only reads; nothing changes"


@dataclass(frozen=True)
class Step:
    """The next step.

    Attributes:
        command: what to type; None when nothing is to be done.
        text: the step in a sentence, with the command where there is one.
        effect: what it touches and what it does not; empty when nothing is to be done.
    """

    command: str | None
    text: str
    effect: str = ""


def step(m: Material) -> Step:
    """The next step for one stream."""
    name, state = m.stream.id, m.verdict.state
    if m.stream.blocked is not None:
        command = mask(str(m.stream.blocked.get("next") or f"lakeward streams status {name}"))
        if "lakeward" not in command:  # something outside is to be put right: nothing starts by itself afterwards
            command = f"{command}; then: lakeward streams start {name}"
        return Step(command, command, effect(m, command))
    if state is State.RESTARTING:
        command = f"lakeward streams logs {name}"
        start = f"lakeward streams start {name}"
        return Step(command, f"wait, it is tried again by itself; to cut the pause short: {start}", effect(m, start))
    if state is State.STALLED:
        command = f"lakeward streams restart {name} --wait"
        return Step(command, command, effect(m, command))
    if state is State.UNKNOWN:
        command = "lakeward stack status"
        give_up = f"lakeward streams restart {name} --kill"
        text = f"{command}; nothing is restarted until somebody can be asked; if its host is gone for good: {give_up}"
        return Step(command, text, effect(m, command))
    pressed = m.facts.pressed(name)
    waits = pressed is not None and pressed.level is not Level.RELEASED
    if waits and state in (State.HEALTHY, State.LAGGING):
        spec = m.view.spec(name)
        command = f"lakeward tables why {spec.sink.table if spec is not None else '..'}"
        return Step(command, f"it goes on by itself when its table is rewritten; what that waits for: {command}", READS)
    if state is State.LAGGING:
        text = "watch the trend; if it grows: more cores or a larger max_offsets_per_trigger in the stream's file"
        return Step(None, text, "a changed file does nothing until it is deployed and the stream upgraded")
    if state is State.STOPPED:
        command = f"lakeward streams start {name}"
        return Step(command, command, effect(m, command))
    return Step(None, "nothing to do")


def effect(m: Material, text: str) -> str:
    """The blast radius of a command, in a sentence; of several, one after the other, or one instead of the other."""
    commands = re.split(r"(lakeward [^,;)]+|ALTER TABLE [^,;)]+)", text)
    if len(commands) == 1:
        return _effect(m, text)
    between, told = commands[::2], [_effect(m, each.strip()) for each in commands[1::2]]
    words = ["; or: " if re.search(r"\bor\b", each) else "; then: " for each in between[1:-1]]
    return told[0] + "".join(word + each for word, each in zip(words, told[1:], strict=True))


def _effect(m: Material, command: str) -> str:
    beside = m.view.beside(m.stream)
    others = f"; {listed(beside)} in the same driver {'goes' if len(beside) == 1 else 'go'} on" if beside else ""
    down = m.view.gone(m.stream)
    launched = f"launches driver {m.stream.driver}" + (f", with it {listed(beside)}" if beside else "")
    words = {
        "streams start": f"{launched if down else f'starts its query{others}'}; no row lands twice",
        "streams restart": f"ends its query at a batch boundary and starts it again{others}; "
        "no row is lost or lands twice",
        "streams recover": "makes a new checkpoint where the table's position ends, keeps what is left of the old "
        f"one, and {launched if down else f'starts its query{others}'}; no row is lost or lands twice",
        "streams skip-batch": "gives up all records of the batch for good, counted as skipped; needs approval",
        "streams reset": "moves the position: records in between are given up or land again; needs approval",
        "streams upgrade": f"replaces its query by the new generation, and takes it back if it lags{others}",
        "streams rollback": f"replaces its query by the generation before{others}",
        "sql --write": "changes the table for every reader, at once; undo it the same way",
        "tables restore": "moves the table, all positions and `verified` back together; needs approval",
        "deploy": "accepts changed files as new generations; what runs goes on unchanged",
        "ALTER TABLE": "changes a property of the table for every writer; no row",
    }
    if "--dry-run" in command:
        return "only shows what it would do; without --dry-run it " + _effect(m, command.replace("--dry-run", ""))
    typed = command.removeprefix("lakeward ")
    found = next((text for start, text in words.items() if typed.startswith(start)), None)
    if found is not None:
        return found
    reads = ("streams logs", "streams status", "streams audit", "stack status")
    return READS if typed.startswith(reads) else "read it to the end before you start"
