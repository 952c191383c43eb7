"""A driver without Spark that keeps the launch contract: leases, signs of life, batches, exit codes.

The last argument is the launch file. `<drivers>/mode` may hold `config`, `crash`, `quiet` (no batches) or `poison`: it
begins a batch of each of its streams, lands those of the streams not named like it, and dies. `killed` is the same, by
a signal. `stuck` answers, has records to land, and lands nothing. `calm` turns as seldom as a real driver.
A stream with a schedule lands one batch and completes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import func, select

from lakeward.driver import completed
from lakeward.platform.runtime import Launch
from lakeward.registry import drivers, generations, leases, observations, streams
from lakeward.registry.engine import connect


def main(launch: Launch) -> int:
    url = launch.runtime.registry_url_file.read_text().strip()
    file = launch.runtime.drivers / "mode"
    mode = file.read_text() if file.exists() else ""
    if mode == "config":
        words = {"exit_code": 2, "failure_class": "config", "error": "no such column: x", "stream": "flights"}
        (launch.folder / "exit.json").write_text(json.dumps(words))
        return 2
    if mode == "crash":
        print("java.net.ConnectException: Connection refused")
        return 1
    if mode in ("poison", "killed"):
        with connect(url, launch.runtime.pgpass) as connection:
            begin_batches(connection, launch)
        if mode == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        # As JSON has it: a value with a NUL and half of a surrogate pair, which the registry cannot hold.
        (launch.folder / "driver.log").write_text('{"event": "batch begins", "value": "a\\u0000\\ud800b"}\n')
        print("java.lang.IllegalStateException: cannot decode record 17: a\x00b")
        return 1
    (launch.folder / "environment.json").write_text(json.dumps(dict(os.environ)))
    with connect(url, launch.runtime.pgpass) as connection:
        if not drivers.claim(connection, launch.driver, launch.token, f"{os.getpid()}", "a test"):
            return 75
    batch, ran = 0, set()
    while True:
        batch += 1
        with connect(url, launch.runtime.pgpass) as connection:
            assigned = live(connection, launch, batch, mode)
            for name in (assigned or []) if mode == "stuck" else []:
                observations.record(connection, name, query_state="running", lag_records=9)
            for name in ran - set(assigned if assigned is not None else ran):
                if observations.latest(connection)[name].query_state != "completed":
                    observations.record(connection, name, query_state="stopped", error=None)
            ran = set(assigned or [])
        if assigned is None:
            return 75
        if not assigned:
            (launch.folder / "exit.json").write_text(json.dumps({"exit_code": 0, "failure_class": None}))
            return 0
        time.sleep(1.0 if mode == "calm" else 0.2)


def begin_batches(connection, launch: Launch) -> None:
    """Every stream's query begins a batch; only that of a stream called `poison...` stays unlanded."""
    drivers.beat(connection, launch.driver, launch.token, state="running")
    for item in streams.of_driver(connection, launch.driver):
        if item.desired != "running" or item.blocked or (item.run_after and item.run_after > datetime.now(UTC)):
            continue
        landed = {} if item.id.startswith("poison") else {"committed_at": func.now()}
        observations.record(connection, item.id, query_state="running", lag_records=5, **landed)


def live(connection, launch: Launch, batch: int, mode: str) -> list[str] | None:
    """One turn of the control loop; the streams that run, None when fenced."""
    me, token, ttl = launch.driver, launch.token, leases.STREAM_TTL
    state = "stuck" if mode == "stuck" else "running"
    if not drivers.beat(connection, me, token, state=state, spark_ui="http://127.0.0.1:4040"):
        return None
    if leases.take(connection, "driver", me, token, me, ttl) is None:
        return None
    mine = streams.of_driver(connection, me)
    assigned = [item.id for item in mine if item.desired == "running" and not item.blocked]
    for name in assigned:
        leases.take(connection, "stream", name, token, me, ttl)
        if mode not in ("quiet", "stuck"):
            observations.record(
                connection,
                name,
                query_state="running",
                batch_id=batch,
                committed_at=func.now(),
                lag_records=0,
                lag_s=0.0,
            )
    assigned = [name for name in assigned if mode == "quiet" or not complete(connection, name, token)]
    leases.release(connection, "stream", [item.id for item in mine if item.id not in assigned], token)
    if not assigned:
        drivers.exited(connection, me, token, exit_code=0, error=None)
        leases.release(connection, "driver", [me], token)
    return assigned


def complete(connection, name: str, token: str) -> bool:
    """End the run of a stream that has a schedule."""
    found = generations.get(connection, name, streams.get(connection, name).generation)
    if found is None or "schedule" not in (found.spec.get("trigger") or {}):
        return False
    now = connection.execute(select(func.now())).scalar_one()
    completed.record(token, name, now, 1, 3)(connection)
    return True


if __name__ == "__main__":
    sys.exit(main(Launch.read(Path(sys.argv[-1]))))
