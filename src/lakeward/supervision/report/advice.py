"""Advice: the next command for a stream, and its blast radius, for an on-call engineer who was just woken up."""

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
        command: the command to run; None if nothing is to be done.
        text: the step in a sentence, with the command if there is one.
        effect: what it changes and what it does not; empty if nothing is to be done.
    """

    command: str | None
    text: str
    effect: str = ""


def step(m: Material) -> Step:
    """The next step for one stream."""
    name, state = m.stream.id, m.verdict.state
    if m.stream.blocked is not None:
        command = mask(str(m.stream.blocked.get("next") or f"lakeward streams status {name}"))
        if "lakeward" not in command:  # the cause is outside of Lakeward: nothing restarts automatically afterwards
            command = f"{command}; then: lakeward streams start {name}"
        return Step(command, command, effect(m, command))
    if state is State.RESTARTING:
        command = f"lakeward streams logs {name}"
        start = f"lakeward streams start {name}"
        return Step(command, f"wait for the automatic restart; to restart it now: {start}", effect(m, start))
    if state is State.STALLED:
        command = f"lakeward streams restart {name} --wait"
        return Step(command, command, effect(m, command))
    if state is State.UNKNOWN:
        command = "lakeward stack status"
        kill = f"lakeward streams restart {name} --kill"
        text = f"{command}; nothing is restarted while its state is unknown; if its host is gone for good: {kill}"
        return Step(command, text, effect(m, command))
    pressed = m.facts.backpressure(name)
    paused = pressed is not None and pressed.level is not Level.RELEASED
    if paused and state in (State.HEALTHY, State.LAGGING):
        spec = m.view.spec(name)
        command = f"lakeward tables why {spec.sink.table if spec is not None else '..'}"
        return Step(
            command,
            f"it continues by itself after the rewrite of its table; to see what the rewrite waits for: {command}",
            READS,
        )
    if state is State.LAGGING and m.facts.late(name) is not None:
        return _late(m)
    if state is State.LAGGING:
        text = "watch the trend; if it grows: more cores or a larger max_offsets_per_trigger in the stream's file"
        return Step(None, text, "a changed file does nothing until it is deployed and the stream upgraded")
    if state is State.STOPPED:
        command = f"lakeward streams start {name}"
        return Step(command, command, effect(m, command))
    return Step(None, "nothing to do")


def _late(m: Material) -> Step:
    """The step for a stream whose watermark is ahead or whose rows come late: no command gives the state back."""
    name = m.stream.id
    if "ahead of the clock" in str(m.facts.late(name)):
        text = (
            "its checkpoint keeps the watermark: give the stream a new id and a new table "
            f"(conf/streams/{name}.yaml), with watermark: {{max_ahead: 1h}}, then: lakeward deploy"
        )
    else:
        text = (
            f"find out why events come late (a producer's clock, an outage); a longer watermark: delay in "
            f"conf/streams/{name}.yaml keeps later ones, then: lakeward deploy"
        )
    return Step("lakeward deploy", text, effect(m, "lakeward deploy"))


def effect(m: Material, text: str) -> str:
    """The blast radius of a command in a sentence; of several commands, joined with `then` or `or`."""
    commands = re.split(r"(lakeward [^,;)]+|ALTER TABLE [^,;)]+)", text)
    if len(commands) == 1:
        return _effect(m, text)
    between, effects = commands[::2], [_effect(m, command.strip()) for command in commands[1::2]]
    joins = ["; or: " if re.search(r"\bor\b", part) else "; then: " for part in between[1:-1]]
    return effects[0] + "".join(join + effect for join, effect in zip(joins, effects[1:], strict=True))


def _effect(m: Material, command: str) -> str:
    beside = m.view.other_streams(m.stream)
    others = (
        f"; {listed(beside)} in the same driver {'continues' if len(beside) == 1 else 'continue'}" if beside else ""
    )
    down = m.view.process_gone(m.stream)
    launched = f"launches driver {m.stream.driver}" + (f" together with {listed(beside)}" if beside else "")
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
        "deploy": "registers changed files as new generations; running streams are not restarted",
        "ALTER TABLE": "changes a property of the table for every writer; changes no row",
    }
    if "--dry-run" in command:
        return "only shows what it would do; without --dry-run it " + _effect(m, command.replace("--dry-run", ""))
    typed = command.removeprefix("lakeward ")
    known = next((text for start, text in words.items() if typed.startswith(start)), None)
    if known is not None:
        return known
    reads = ("streams logs", "streams status", "streams audit", "stack status")
    return READS if typed.startswith(reads) else "not known: read the whole text before you start"
