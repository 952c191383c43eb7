"""The registry of many streams on a PostgreSQL of its own, with a driver each, whose process is played by this one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import text

from lakeward.platform import ports
from lakeward.platform.runtime import Lake, Launch, Runtime
from lakeward.registry.engine import connect, migrate
from lakeward.stack import private
from lakeward.stack.postgres import Postgres, environment, pgpass
from lakeward.supervision.backends import identity
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.reconcile import registry_of

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
