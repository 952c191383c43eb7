"""`stack down`: stop the parts in dependency order, and verify that no process remains."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from lakeward.platform.errors import LakewardError, Unhealthy
from lakeward.platform.runtime import Home
from lakeward.stack import session
from lakeward.stack.state import Process, StackState
from lakeward.stack.supervisor import Observed, Supervisor

# Airflow stops first, because it would launch drivers again. PostgreSQL and Kafka stop last, because drivers finish a
# batch on them. The checker stops before the connect server, because a released run ends its statements there.
_AFTER_DRIVERS = (("checker",), ("connect", "kafka"), ("postgres",))
_LONGEST_STOP_S = 90


def down(home: Home, stop_drivers: Callable[[], None] | None, say: Callable[[str], None]) -> dict[str, float]:
    """Stop the stack of `home`. Returns the seconds of each step; empty if no stack runs.

    Args:
        home: the home of the stack.
        stop_drivers: stops the drivers at a batch boundary, called while PostgreSQL and Kafka still run; None leaves
            drivers running.
        say: prints one line.

    Raises:
        Unhealthy: a process of the stack cannot be killed.
    """
    begin = time.monotonic()
    seconds: dict[str, float] = {}
    state, supervisor = StackState.load(home), Supervisor(home)
    if not state.running:
        state.supervisor = supervisor.find() or state.supervisor  # stack.json may have been removed
    if state.supervisor is None:
        return seconds
    observed = _observed(state, supervisor)

    def step(name: str, act: Callable[[], object]) -> None:
        start = time.monotonic()
        act()
        seconds[name] = round(time.monotonic() - start, 2)
        say(f"{name:<22} {seconds[name]:6.1f} s")

    airflow = [name for name in observed if name.startswith("airflow-")]
    if airflow:
        step("airflow", lambda: _stop(supervisor, airflow))
    if stop_drivers is not None:
        step("drivers", stop_drivers)
    for together in _AFTER_DRIVERS:
        names = [name for name in together if name in observed]
        if names:
            step(" and ".join(names), lambda names=names: _stop(supervisor, names))  # type: ignore[misc]  # bound now
    step("supervisor", lambda: _shutdown(supervisor, state.supervisor))
    state.supervisor = None
    state.save(home)
    say(f"{'total':<22} {time.monotonic() - begin:6.1f} s")
    return seconds


def _observed(state: StackState, supervisor: Supervisor) -> dict[str, Observed]:
    if not state.running:
        return {}
    try:
        return {name: part for name, part in supervisor.observe().items() if part.pid}
    except LakewardError:
        return {}  # it hangs; its session is ended below


def _stop(supervisor: Supervisor, names: list[str]) -> None:
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        list(pool.map(lambda name: supervisor.stop(name, wait=True), names))


def _shutdown(supervisor: Supervisor, leader: Process | None) -> None:
    if leader is None:
        return
    if leader.alive():
        supervisor.shutdown()
    wait_for_end(leader)


def wait_for_end(leader: Process) -> None:
    """Wait for a supervisor that stops its parts and itself, and end what is left of its session.

    Raises:
        Unhealthy: a process cannot be killed.
    """
    deadline = time.monotonic() + _LONGEST_STOP_S
    while leader.alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    # Processes that outlived their part, such as an idle executor worker of a killed scheduler.
    remaining = session.end(session.members(leader))
    if remaining:
        raise Unhealthy(
            "A process of the stack does not end after SIGKILL",
            why=", ".join(f"{process.pid} {process.name()}" for process in remaining),
            next="kill -9 " + " ".join(str(process.pid) for process in remaining),
            code="LW-7004",
        )
