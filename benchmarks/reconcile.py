"""What one reconcile pass over many streams costs, with a real PostgreSQL and real launch folders.

    python benchmarks/reconcile.py [--streams 1000] [--passes 3] [--dead 100]

Every stream has a driver of its own, whose process is played by this one; two dead launches lie beside each. The
registry holds what a month leaves: generations, observations with whole progress reports, batches, events, restarts.
Reported as one JSON object, for a pass in which every word changes, for one in which nothing does, and for one after
`--dead` drivers died: seconds, CPU seconds of this process, launches and burials; then what memory the process took.
Drivers that are launched are not started: starting one costs what Spark costs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import text

from lakeward.platform import ports
from lakeward.platform.runtime import Lake, Launch, Runtime
from lakeward.registry.engine import connect, migrate
from lakeward.stack import private
from lakeward.stack.postgres import Postgres, environment, pgpass
from lakeward.supervision.backends import identity
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.backends.local import LocalBackend
from lakeward.supervision.reconcile import reconcile_once, registry_of
from lakeward.telemetry import logs

PROGRESS = {
    "durationMs": {f"phase{number}": number for number in range(12)},
    "sources": [{"description": "KafkaV2[Subscribe[flights]]" * 4, "endOffset": {str(p): p for p in range(64)}}] * 4,
    "stateOperators": [{f"metric{number}": number for number in range(40)}] * 4,
}
HISTORY = """
INSERT INTO streams (id, desired, generation, driver, state)
  SELECT 's' || n, 'running', 3, 's' || n, 'starting' FROM generate_series(1, :streams) n;
INSERT INTO generations (stream, generation, spec, digest, author, checkpoint)
  SELECT 's' || n, g, jsonb_build_object('id', 's' || n, 'owner', 'ops', 'limits', jsonb_build_object('stall', '5m'),
    'sink', jsonb_build_object('iceberg', jsonb_build_object('table', 'a.b')), 'transform', repeat('SELECT 1 ', 400)),
    'd', 'ada', 's' || n FROM generate_series(1, :streams) n, generate_series(1, 3) g;
INSERT INTO observations (stream, query_state, batch_id, committed_at, lag_records, lag_s, progress)
  SELECT 's' || n, 'running', 812, now(), 0, 0, CAST(:progress AS jsonb) FROM generate_series(1, :streams) n;
INSERT INTO batches (stream, query_id, batch_id, generation, committed_at)
  SELECT 's' || n, 'q', b, 3, now() - b * interval '10 seconds'
  FROM generate_series(1, :streams) n, generate_series(1, 200) b;
INSERT INTO events (scope, name, kind, text)
  SELECT 'stream', 's' || n, 'state', 'healthy for 3 h' FROM generate_series(1, :streams) n, generate_series(1, 100) e;
INSERT INTO restarts (driver, stream, at, failure_class, error, attempt, next_attempt_at)
  SELECT 's' || n, NULL, now() - r * interval '1 day', 'infra', 'Driver was killed by SIGKILL', 1, now()
  FROM generate_series(1, :streams) n, generate_series(1, 20) r;
INSERT INTO operations (stream, operation, author, result, requested_at, finished_at)
  SELECT 's' || n, 'start', 'ada', 'done', now() - o * interval '1 day', now()
  FROM generate_series(1, :streams) n, generate_series(1, 20) o;
ANALYZE;
"""


class Played(LocalBackend):
    """The local backend, but for starting: a launch is answered by this very process."""

    def start(self, launch: Launch) -> Job:
        return played(launch)


def played(launch: Launch) -> Job:
    """A launch folder whose process is this one."""
    launch.folder.mkdir(parents=True)
    launch.write(launch.folder / "launch.json")
    handle = identity.of(os.getpid())
    (launch.folder / "process.json").write_text(json.dumps(handle))
    return Job(launch.driver, launch.token, Life.ALIVE, handle, identity.host(), str(launch.folder))


def fleet(runtime: Runtime, streams: int) -> list[tuple[str, Job]]:
    """A living launch for every stream, and two dead ones."""
    made = []
    ended = {**identity.of(os.getpid()), "pid": 2**22 - 7}
    for number in range(1, streams + 1):
        name = f"s{number}"
        for stamp in ("20260101T000000-1", "20260102T000000-2"):
            folder = runtime.drivers / name / stamp
            folder.mkdir(parents=True)
            Launch(driver=name, token=stamp, folder=folder, runtime=runtime).write(folder / "launch.json")
            (folder / "process.json").write_text(json.dumps(ended))
            (folder / "exit.json").write_text('{"exit_code": 1, "failure_class": "infra"}')
        token = secrets.token_hex(16)
        folder = runtime.drivers / name / "20260103T000000-3"
        made.append((name, played(Launch(driver=name, token=token, folder=folder, runtime=runtime))))
    return made


def record(runtime: Runtime, jobs: list[tuple[str, Job]]) -> None:
    rows = [
        {"name": name, "token": job.token, "handle": json.dumps(dict(job.handle or {})), "log": job.log}
        for name, job in jobs
    ]
    with registry_of(runtime)() as connection:
        connection.execute(
            text(
                "INSERT INTO drivers (name, token, backend, handle, host, log, state, heartbeat, launched_at) VALUES"
                " (:name, :token, 'local', CAST(:handle AS jsonb), 'here', :log, 'running', now(),"
                " now() - interval '1 hour')"
            ),
            rows,
        )
        for scope in ("driver", "stream"):
            connection.execute(
                text(
                    "INSERT INTO leases (scope, name, token, holder, until)"
                    " SELECT :scope, name, token, 'here', now() + interval '1 day' FROM drivers"
                ),
                {"scope": scope},
            )


def kill(runtime: Runtime, names: list[str]) -> None:
    """Their processes are gone, without a word."""
    for name in names:
        (file,) = (runtime.drivers / name).glob("20260103T*/process.json")
        file.write_text(json.dumps({**identity.of(os.getpid()), "pid": 2**22 - 9}))


def measured(runtime: Runtime, backend: LocalBackend) -> dict[str, Any]:
    began, cpu = time.monotonic(), time.process_time()
    summary = reconcile_once(
        registry_of(runtime), runtime, backend, holder="benchmark", startup_grace_s=0.0, chance=lambda: 0.0
    )
    return {
        "seconds": round(time.monotonic() - began, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "edges": len(summary.edges),
        "acts": {act: len([1 for item in summary.done if item.act == act]) for act in {i.act for i in summary.done}},
    }


def measure(runtime: Runtime, arguments: argparse.Namespace) -> dict[str, Any]:
    record(runtime, fleet(runtime, arguments.streams))
    backend = Played(runtime.drivers)
    before = psutil.Process().memory_full_info().pss
    changes = measured(runtime, backend)
    calm = [measured(runtime, backend) for _ in range(arguments.passes)]
    kill(runtime, [f"s{number}" for number in range(1, arguments.dead + 1)])
    deaths = measured(runtime, Played(runtime.drivers))
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "streams": arguments.streams,
        "every_word_changes": changes,
        "nothing_changes": min(calm, key=lambda item: item["seconds"]),
        f"{arguments.dead}_drivers_died": deaths,
        "pss_mb": {
            "before": round(before / 2**20),
            "after": round(psutil.Process().memory_full_info().pss / 2**20),
            "peak_rss": round(_peak_kb() / 2**10),
        },
    }


def _peak_kb() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


@contextmanager
def registry_of_many(streams: int) -> Iterator[Runtime]:
    """A PostgreSQL of its own with the registry of so many streams; it is stopped and removed at the end."""
    scratch = Path(tempfile.mkdtemp(prefix="lakeward-bench-"))
    scratch.chmod(0o755)  # the server runs as a user of its own
    server = Postgres(scratch / "pg", ports.any_free(), {"fsync": "off"})
    server.initialise("admin")
    with (scratch / "log").open("ab") as log:
        process = subprocess.Popen(server.command(bound=True), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True, env=environment(), cwd="/")  # fmt: skip
    try:
        server.wait("admin")
        server.prepare("admin", {"lakeward": "bench"}, {"registry": "lakeward", "catalog": "lakeward"})
        file = private.write(scratch / "pgpass", pgpass(server.port, {"lakeward": "bench"}))
        url = f"postgresql+psycopg2://lakeward@127.0.0.1:{server.port}/registry"
        migrate(url, file)
        (scratch / "registry.url").write_text(url)
        runtime = Runtime(
            registry_url_file=scratch / "registry.url", pgpass=file, checkpoints=str(scratch / "checkpoints"),
            lake=Lake(port=server.port, warehouse=str(scratch / "lake")), drivers=scratch / "drivers", jars=scratch,
        )  # fmt: skip
        with connect(url, file) as connection:
            for statement in HISTORY.strip().split(";\n"):
                given = {"streams": streams, "progress": json.dumps(PROGRESS)}
                connection.execute(text(statement), {k: v for k, v in given.items() if f":{k}" in statement})
        yield runtime
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--dead", type=int, default=100)
    arguments = parser.parse_args()
    logs.to_stderr()
    with registry_of_many(arguments.streams) as runtime:
        print(json.dumps(measure(runtime, arguments)))


if __name__ == "__main__":
    sys.exit(main())
