"""The named steps of a check run, and what is taken out of it on purpose.

A step is a place where the functions of a run are wrapped: whoever stands there may end the run (as a killed process
does: what is not committed is gone) or let something happen to the table before it goes on. Nothing is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

from lakeward.quality.publishing import verified
from lakeward.quality.ranges import frames, metadata, range, snapshot_chain
from lakeward.quality.runs import run
from lakeward.quality.verdicts import verdict as verdicts
from lakeward.quality.verdicts.verdict import State, Verdict
from lakeward.registry import schema, verifications, waivers

STEPS: Final = (
    "before-looking", "after-looking", "before-reading", "before-results", "in-results", "before-moving", "moving",
    "after-moving",
)  # fmt: skip
"""In order. `in-results`: written and not committed; `moving`: the metadata is read, the branch stands as it did."""
QUIET: Final = ("before-results", "in-results")
"""Steps inside a transaction: nothing else happens to the table there."""


class Killed(BaseException):
    """The process of a run is gone. Not an `Exception`: nothing of a run may outlive it."""


_PLACES: Final[tuple[tuple[ModuleType, str, str, str], ...]] = (
    (metadata, "history", "before-looking", "after-looking"),
    (frames, "rows", "before-reading", ""),
    (verifications, "record", "before-results", "in-results"),
    (verified, "move", "before-moving", "after-moving"),
    (verified, "history_of", "", "moving"),
)


@contextmanager
def at_steps(stand: Callable[[str], None]) -> Iterator[None]:
    """Call `stand` with the name of every step that a run comes to."""

    def around(original: Callable[..., Any], before: str, after: str) -> Callable[..., Any]:
        @wraps(original)
        def wrapped(*given: Any, **named: Any) -> Any:
            if before:
                stand(before)
            result = original(*given, **named)
            if after:
                stand(after)
            return result

        return wrapped

    with ExitStack() as held:
        for module, name, before, after in _PLACES:
            held.enter_context(patch.object(module, name, around(getattr(module, name), before, after)))
        yield


def _head_of_main(now: snapshot_chain.History, checked: int) -> verified.Move:
    return verified.Move(now.head if now.head != now.verified else None, "planted")


def _blindly(now: snapshot_chain.History, checked: int) -> verified.Move:
    return verified.Move(checked if checked != now.verified else None, "planted")


def _without_errors(checks: Any) -> Verdict:
    return _verdict([each for each in checks if each.state is not State.ERROR])


def _also_held(connection: Any, table: str, limit: int = 100) -> list[dict[str, Any]]:
    found = verifications.newest(connection, table, limit=limit)
    return [each for each in found if each["verdict"] != "error" and each["to_snapshot"] is not None]


def _branch_first(connection: Any, row: dict[str, Any], results: list[dict[str, Any]]) -> None:
    rig, table = _planted_for
    if row["verified_snapshot"] is not None and row["verdict"] in ("pass", "warn"):
        verified.move(rig.session, rig.lake, table, lambda now: verified.advance(now, row["verified_snapshot"]))
    _record(connection, row, results)


def _endless(connection: Any, table: str | None = None) -> list[waivers.Waiver]:
    """Every waiver there ever was."""
    columns = [schema.waivers.c[name] for name in waivers.Waiver.__dataclass_fields__]
    rows = connection.execute(
        schema.waivers.select().with_only_columns(*columns).where(schema.waivers.c.table == table)
    )
    return [waivers.Waiver(**row._mapping) for row in rows]


_verdict, _record = verdicts.verdict, verifications.record
_planted_for: tuple[Any, str] = (None, "")
PLANTED: Final[dict[str, tuple[Any, str, Any]]] = {
    "overwrites are read as appends": (range, "rewrites", lambda snapshots: None),
    "main instead of what was checked": (verified, "advance", _head_of_main),
    "no look at the ancestry": (verified, "advance", _blindly),
    "an error is a pass": (run, "verdict", _without_errors),
    "a held run is a proof": (verifications, "proofs", _also_held),
    "the branch before the results": (verifications, "record", _branch_first),
    "the branch is not repaired": (verified, "settle", lambda now, base: verified.Move(None, "planted")),
    "what main went back over was checked": (snapshot_chain, "_off_the_line", lambda history, start, end: None),
    "a waiver has no end": (waivers, "in_force", _endless),
    "what was expired was checked": (snapshot_chain, "_when_expired", lambda history, start, end: None),
}
"""What is taken out: where, and what stands there instead."""


@contextmanager
def planted(fault: str, engines: Any, table: str) -> Iterator[None]:
    """With one guard taken out; none for an empty name."""
    global _planted_for
    _planted_for = (engines, table)
    with ExitStack() as held:
        if fault:
            module, name, instead = PLANTED[fault]
            held.enter_context(patch.object(module, name, instead))
        yield
