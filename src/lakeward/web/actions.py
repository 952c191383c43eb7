"""Which operations the page offers for a stream, and which one first. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypedDict

from lakeward.operations.request import StreamOperation
from lakeward.operations.runner import ON_STREAMS
from lakeward.supervision.decide.health import State
from lakeward.supervision.report.document import StreamDocument

_COMMAND = re.compile(r"lakeward streams (start|stop|restart|upgrade|rollback|recover|reset|skip-batch)\b")
_DOWN = frozenset({State.STOPPED, State.COMPLETED, State.BLOCKED})
_UP = frozenset(State) - _DOWN - {State.STOPPING}


class Action(TypedDict):
    """An operation that the page offers.

    Attributes:
        op: the value of `op` of the stream's Dag.
        primary: it is what `next` says.
        needs: parameters of the Dag that a person has to fill in, beside `comment`.
        approval: the run waits until a person approves its plan.
    """

    op: str
    title: str
    primary: bool
    needs: Sequence[str]
    approval: bool


class _Kind(NamedTuple):
    title: str
    needs: tuple[str, ...] = ()


_KINDS = {
    "start": _Kind("Start"),
    "restart": _Kind("Restart"),
    "stop": _Kind("Stop at a batch boundary"),
    "upgrade": _Kind("Upgrade to the deployed generation"),
    "rollback": _Kind("Roll back to the last stable generation"),
    "recover": _Kind("Recover the checkpoint from the table"),
    "reset": _Kind("Reset the position", ("to",)),
    "skip_batch": _Kind("Skip the failed batch", ("batch",)),
}


def offered(document: StreamDocument) -> list[Action]:
    """The operations that can make sense now, the one of `next` first. The operation itself decides whether it can."""
    said = _COMMAND.search(document["next"] or "")
    first = said[1].replace("-", "_") if said else None
    names = [name for name in _KINDS if name == first or _fits(name, document)]
    names.sort(key=lambda name: name != first)
    return [_action(name, primary=name == first) for name in names]


def _fits(name: str, document: StreamDocument) -> bool:
    state = State(document["state"])
    failure = document["failure"]
    return {
        "start": state in _DOWN,
        "restart": state in _UP,
        "stop": state in _UP or state is State.BLOCKED,
        "upgrade": document["pending_generation"] is not None,
        "rollback": document["stable_generation"] is not None,
        "recover": state in _DOWN or state is State.RESTARTING,
        "reset": state in _DOWN,
        "skip_batch": state is State.BLOCKED and failure is not None and failure["batch_id"] is not None,
    }[name]


def _action(name: str, *, primary: bool) -> Action:
    kind, operation = _KINDS[name], ON_STREAMS[StreamOperation.of(name)]
    return {
        "op": name, "title": kind.title, "primary": primary, "needs": kind.needs, "approval": operation.needs_approval,
    }  # fmt: skip
