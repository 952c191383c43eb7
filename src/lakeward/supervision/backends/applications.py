"""What the document of an application of YARN says about its driver. Pure.

| the application | the driver |
|---|---|
| `NEW`, `NEW_SAVING`, `SUBMITTED`, `ACCEPTED` | not started; why, in YARN's words |
| `RUNNING` | runs |
| `FINISHED`, `KILLED` | has ended |
| `FAILED` | has ended, unless its node was lost: then it may run on |
| another state | not known |
| not there | ended if it left an exit record; else it may run on: the ResourceManager forgot it |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakeward.connectors.yarn.client import App
from lakeward.platform.errors import DependencyDown
from lakeward.supervision.backends.base import ExitRecord, Life

_WAITS = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
_CODE = re.compile(r"exited with\s+exitCode: (-?\d+)")
_OWN = re.compile(r"User application exited with status (\d+)")
_LOST = re.compile(r"exitCode: -100\b|ApplicationMaster for attempt \S+ timed out|released on a \*lost\* node")
_NODE_ENDS = {
    -101: "was ended by its node: its disks failed",
    -102: "was preempted by YARN, for an application of another queue",
    -103: "ran out of memory: its container used more virtual memory than it has",
    -104: "ran out of memory: its container used more physical memory than it has",
    -105: "was ended by YARN: its application master gave up",
    -106: "was ended by YARN: the ResourceManager had its container killed",
    -108: "was ended by its node: its container used more of the node than it may",
}
_SIGNALS = {137: "SIGKILL", 143: "SIGTERM"}
_BY_A_PERSON = re.compile(r"killed by user|terminated by user|KILL_APPLICATION", re.IGNORECASE)


@dataclass(frozen=True)
class AppState:
    """What is left of an application. `waits`, `lost`: as in `Job`. `exit`: its end, without a record of the driver."""

    life: Life
    waits: str = ""
    lost: str = ""
    exit: ExitRecord | None = None


def judge(app: App) -> AppState:
    """What is left of an application."""
    state, said = str(app.get("state") or ""), _text(app)
    if state in _WAITS:
        return AppState(Life.ALIVE, waits=words(waiting(app)))
    if state == "RUNNING":
        return AppState(Life.ALIVE)
    if state == "FAILED" and _LOST.search(said):
        return AppState(Life.UNKNOWN, lost=f"YARN lost the node of its application {app.get('id')}")
    if state in ("FINISHED", "FAILED", "KILLED"):
        return AppState(Life.GONE, exit=ended(app))
    return AppState(Life.UNKNOWN, lost=f"YARN calls its application {state or 'of no state'}")


def waiting(app: App) -> DependencyDown:
    """Why an application has not started, as the error that it becomes if that lasts."""
    name, queue, why = app.get("id"), app.get("queue"), _text(app)
    if re.search(r"AM resource limit|resource limit exceeded|waiting for resources|[Ii]nsufficient|not activated", why):
        return DependencyDown(
            f"YARN has no room for a driver in the queue {queue}", why=why,
            next=f"yarn queue -status {queue}; make room, or raise its maximum-am-resource-percent", code="LW-2569",
        )  # fmt: skip
    return DependencyDown(
        f"YARN has not started a driver in the queue {queue}", why=why or "the ResourceManager gives no reason",
        next=f"yarn application -status {name}", code="LW-2570",
    )  # fmt: skip


def words(error: DependencyDown) -> str:
    """An error in one line, for decisions, events and incidents."""
    return f"{error.headline}: {error.why}; next: {error.next}"


def ended(app: App) -> ExitRecord:
    """The end of an application that has ended: the reason that YARN gives, else the exit code of its driver."""
    state, said = app.get("state"), _text(app)
    if state == "FINISHED" and app.get("finalStatus") == "SUCCEEDED":
        return {"exit_code": 0}
    if state == "KILLED":
        by = "by a person or a program, through YARN" if _BY_A_PERSON.search(said) or not said else "by YARN"
        return {"error": f"The driver was killed {by}{f': {said}' if said else ''}"}
    if own := _OWN.search(said):
        return {"exit_code": int(own[1]), "error": said}
    code = int(found[1]) if (found := _CODE.search(said)) else None
    if code in _NODE_ENDS:
        return {"error": f"The driver {_NODE_ENDS[code]}: {said}"}
    if code in _SIGNALS:
        hint = ": by a person, or by the kernel for want of memory" if code == 137 else ""
        return {"error": f"The JVM of the driver was killed by {_SIGNALS[code]} (exit code {code}){hint}"}
    record: ExitRecord = {"error": said or f"The application of the driver ended as {state} {app.get('finalStatus')}"}
    if code is not None and code >= 0:
        record["exit_code"] = code
    return record


def _text(app: App) -> str:
    """YARN's words in one line, without the advice about its pages."""
    said = " ".join(str(app.get("diagnostics") or "").split())
    return said.partition(" For more detailed output")[0][:600]
