"""What is wrong with a table, whether data is lost, and what to do: the first lines of its details. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from lakeward.platform.text import count, size, word
from lakeward.tables.documents import Pin
from lakeward.tables.needs import lost_race
from lakeward.telemetry.mask import mask


class TableTrouble(TypedDict):
    """One trouble of a table. `data`: whether data is lost, and why; `next`: a command, and its effect."""

    cause: str
    data: str
    next: str


def troubles(
    table: str, *, verdict: str | None, expiry_hold: str | None, action: Mapping[str, Any] | None, pins: Sequence[Pin]
) -> list[TableTrouble]:
    """The troubles of a table, the worst first; none for one that needs nobody.

    Args:
        verdict: of its newest check run.
        expiry_hold: why expiry waits for a person.
        action: its newest action of maintenance.
        pins: who keeps snapshots that the policy would expire.
    """
    found = []
    if verdict in ("hold", "error"):
        found.append(_trouble(
            "A check holds it" if verdict == "hold" else "A check could not be computed",
            "NO: every row is in the table; readers of `verified` stay on the last good snapshot, readers of the table "
            "itself see all rows",
            f"lakeward quality show {word(table)}   says which rows, since when, and the ways out",
        ))  # fmt: skip
    if expiry_hold:
        found.append(_trouble(
            f"Snapshot expiry waits for a person: {expiry_hold}",
            "NOT KNOWN: a verification failed; nothing more is deleted until a person has looked",
            f'lakeward tables unhold {word(table)} --comment "the finding"   after: lakeward tables why {word(table)}',
        ))  # fmt: skip
    if action is not None and action["result"] in ("failed", "timed_out"):
        doubtful = action["verified"] is False
        found.append(_trouble(
            f"The newest {action['action']} {_how(action)}: {action['why']}",
            "NOT KNOWN: what it committed did not pass its verification" if doubtful
            else "NO: maintenance changes no row, and what it did not commit nobody reads",
            f"lakeward tables why {word(table)}   says when it is tried again, and what keeps it",
        ))  # fmt: skip
    most = next((pin for pin in pins if pin["kind"] in ("reader", "stream", "check")), None)
    if most is not None and most["snapshots"]:
        files = f" and {size(most['bytes'])} of removed files" if most["bytes"] else ""
        kept = count(most["snapshots"], "snapshot") + files
        found.append(_trouble(
            f"Snapshot expiry waits for {most['who']}: {kept} stay; {most['why']}",
            "NO: nothing is deleted that is still needed; only storage grows",
            most["next"],
        ))  # fmt: skip
    return found


def _how(action: Mapping[str, Any]) -> str:
    if lost_race(action):
        return "lost a race against a commit of its streams"
    return str(action["result"]).replace("_", " ")


def _trouble(cause: str, data: str, next: str) -> TableTrouble:
    return {"cause": mask(cause), "data": data, "next": next}
