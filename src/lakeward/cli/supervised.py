"""Whether the streams are supervised, as commands report it: with the cause that the stack of this machine knows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakeward.cli.context import state
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from lakeward.supervision.presence import Presence


def explain(present: Presence) -> Presence:
    """The same with its cause, where it can be asked. A known cause is not awaited: it does not end by itself."""
    from lakeward.stack.supervised import EXTERNAL_NEXT, airflow_is_external, cause
    from lakeward.supervision.presence import State

    if present.state is State.OK:
        return present
    try:
        if airflow_is_external(state().home):
            return replace(present, next=EXTERNAL_NEXT)
        found = cause(state().project, state().home)
    except LakewardError:  # no stack of this machine can be asked
        return present
    if found is None:
        return present
    judged = State.NEVER if present.state is State.AWAITED else present.state
    return replace(present, state=judged, why=f"{present.why}; {found.why}", next=found.next)


def note() -> None:
    """Warn on the terminal if the streams are not supervised."""
    from lakeward.supervision import presence

    try:
        with state().registry() as connection:
            present = presence.read(connection)
    except LakewardError:  # the registry is down: another line says so
        return
    present = explain(present)
    if present.missing:
        state().output.note(f"not supervised: {present.why}; next: {present.next}")
