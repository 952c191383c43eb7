"""`stack status`: state, health and memory of every part."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

from lakeward.platform.errors import LakewardError, expect
from lakeward.stack import groups, session
from lakeward.stack.part import Part
from lakeward.stack.site import StackContext
from lakeward.stack.state import StackState
from lakeward.stack.supervisor import Observed, Supervisor

_STATES = {"STARTING": "starting", "BACKOFF": "starting", "FATAL": "failed", "EXITED": "failed", "UNKNOWN": "failed"}


@dataclass(frozen=True)
class PartStatus:
    """One line of `stack status`.

    Attributes:
        state: up starting down failed.
        pid, since: of the running process; None without one.
        pss_bytes: proportional set size with child processes; None if the system does not report it.
    """

    name: str
    state: str
    pid: int | None
    since: datetime | None
    pss_bytes: int | None
    log: Path


def status(site: StackContext, state: StackState) -> list[PartStatus]:
    """The parts of the last `up`, in start order; all are `down` if the supervisor is dead."""
    parts = groups.parts(site, state.parts or groups.of(site.home))
    observed: dict[str, Observed] = {}
    if state.running:
        with suppress(LakewardError):
            observed = Supervisor(site.home).observe()
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(lambda part: _one(part, observed.get(part.name), state), parts))


def total_pss_bytes(state: StackState) -> int:
    """The memory of the stack with the supervisor and without drivers."""
    if state.supervisor is None or not state.running:
        return 0
    return _pss(state.supervisor.pid, state.supervisor.pid) or 0


def _one(part: Part, observed: Observed | None, state: StackState) -> PartStatus:
    if observed is None or not observed.pid:
        word = "down" if observed is None else _STATES.get(observed.state, "down")
        return PartStatus(part.name, word, None, None, None, part.log)
    word = _STATES.get(observed.state, "starting")
    if observed.state in ("RUNNING", "STARTING"):  # supervisord reports STARTING for some time after a part is healthy
        word = "up" if part.healthy(observed.started) else "starting"
    leader = expect(state.supervisor, "the supervisor's process").pid
    return PartStatus(part.name, word, observed.pid, observed.started, _pss(observed.pid, leader), part.log)


def _pss(pid: int, leader: int) -> int | None:
    total = 0
    try:
        family = session.tree(psutil.Process(pid), session=leader)
    except psutil.NoSuchProcess:
        return None
    for process in family:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, AttributeError):
            facts = process.memory_full_info()
            total += getattr(facts, "pss", facts.uss)
    return total or None
