"""Many small streams in one driver: how much memory they take and what they cost while nothing happens.

    python benchmarks/shared_driver.py [--streams 20] [--every 10s] [--seconds 60] [--rounds 3] [--conf NAME=VALUE ...]

One real driver as a backend starts it, on a broker, a catalog and a registry of its own. Every stream lands a few
batches first; then the driver idles, and the CPU seconds of its process tree (Python and the JVM) are taken over each
round, and its PSS after each. With `--rate N` every topic gets N records a second meanwhile. One JSON object; times
depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
from bench_environment import running
from sqlalchemy import func, select

from lakeward import jars
from lakeward.connectors.iceberg import catalog
from lakeward.platform import ports
from lakeward.platform.runtime import Lake, Launch, Runtime
from lakeward.registry import batches, drivers, engine, generations, schema, streams
from lakeward.spec.model.stream import StreamSpec
from lakeward.stack import private, service_user
from lakeward.stack.kafka import Kafka, create_topic
from lakeward.stack.postgres import Postgres, environment, pgpass

NAME = "shared"
WARM_BATCHES = 3


def tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def cpu_seconds(pid: int) -> dict[str, float]:
    """User and system time by program: `python` and `java`."""
    found: dict[str, float] = {}
    for each in tree(pid):
        times = each.cpu_times()
        name = "java" if "java" in each.name() else "python"
        found[name] = found.get(name, 0.0) + times.user + times.system
    return found


def pss_bytes(pid: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in tree(pid):
        name = "java" if "java" in each.name() else "python"
        found[name] = found.get(name, 0) + each.memory_full_info().pss
    return found


def spec(number: int, every: str) -> StreamSpec:
    return StreamSpec.model_validate({
        "id": f"s{number:03}", "owner": "bench",
        "source": {"kafka": {"topics": [f"t{number:03}"], "max_offsets_per_trigger": 10000,
                             "starting_offsets": "earliest"}},
        "decode": {"json": "n BIGINT, s STRING"},
        "transform": {"sql": "SELECT *, n % 7 AS day FROM source WHERE n >= 0"},
        "sink": {"iceberg": {"table": f"bench.t{number:03}"}},
        "quarantine": {"table": f"bench.t{number:03}_quarantine"},
        "trigger": {"every": every}, "resources": {"driver": NAME},
    })  # fmt: skip


class Producer:
    """Keeps records coming while the driver is measured."""

    def __init__(self, bootstrap: str, topics: int) -> None:
        from confluent_kafka import Producer as Client

        self.client, self.topics, self.sent = Client({"bootstrap.servers": bootstrap}), topics, 0

    def send(self, records: int) -> None:
        for topic in range(self.topics):
            for _ in range(records):
                self.client.produce(f"t{topic:03}", json.dumps({"n": self.sent, "s": "x" * 40}))
                self.sent += 1
            self.client.poll(0)
        self.client.flush(60)


def landed(connect: Any, count: int, batch: int) -> bool:
    with connect() as connection:
        return all(len(batches.newest(connection, f"s{n:03}", limit=batch)) >= batch for n in range(count))


def recorded(connect: Any) -> int:
    """Batches in the registry."""
    with connect() as connection:
        return int(connection.execute(select(func.count()).select_from(schema.batches)).scalar_one())


def until(what: str, done: Any, driver: subprocess.Popen[bytes], folder: Path, limit_s: float = 600) -> None:
    end = time.monotonic() + limit_s
    while not done():
        if driver.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"{what} did not come: {(folder / 'driver.log').read_text()[-4000:]}")
        time.sleep(0.25)


def measure(arguments: argparse.Namespace, held: ExitStack, scratch: Path) -> dict[str, Any]:
    server = Postgres(scratch / "pg", ports.any_free(), {"fsync": "off"})
    server.initialise("admin")
    held.enter_context(running(server.command(bound=True), scratch / "pg.log", signal.SIGINT, environment()))
    server.wait("admin")
    server.prepare("admin", {"lakeward": "bench"}, {"catalog": "lakeward", "registry": "lakeward"})
    passwords = private.write(scratch / "pgpass", pgpass(server.port, {"lakeward": "bench"}))
    java = jars.find_java()
    broker = Kafka(scratch / "kafka", ports.any_free(), ports.any_free())
    (scratch / "kafka").mkdir()
    broker.initialise(java)
    held.enter_context(
        running(service_user.bound(broker.command(java)), scratch / "kafka.log", signal.SIGTERM, dict(os.environ))
    )
    broker.wait()
    for number in range(arguments.streams):
        create_topic(broker.bootstrap, f"t{number:03}", 2)

    url = f"postgresql://lakeward@{ports.HOST}:{server.port}/registry"
    engine.migrate(url, passwords)
    lake = Lake(port=server.port, warehouse=str(scratch / "warehouse"))
    catalog.create_schema(lake, passwords)
    runtime = Runtime(
        registry_url_file=private.write(scratch / "registry.url", url), pgpass=passwords, lake=lake,
        kafka={"lakeward_kafka": broker.bootstrap}, checkpoints=str(scratch / "checkpoints"),
        drivers=scratch / "drivers", jars=jars.spark_folder(),
    )  # fmt: skip

    def connect() -> Any:
        return engine.connect(url, passwords)

    token = uuid4().hex
    with connect() as connection:
        for number in range(arguments.streams):
            made = spec(number, arguments.every)
            streams.accept(connection, str(made.id), generation=1, driver=NAME, desired="running")
            generations.add(
                connection, stream=str(made.id), generation=1, spec=made.document(), digest=str(made.id), sql=None,
                code={}, versions={}, author="bench", checkpoint=f"{made.id}/1",
            )  # fmt: skip
        drivers.record_intent(connection, NAME, token=token, previous=None, backend="local")
    folder = runtime.drivers / NAME / "1"
    folder.mkdir(parents=True)
    conf = dict(each.split("=", 1) for each in arguments.conf)
    Launch(driver=NAME, token=token, folder=folder, runtime=runtime, conf=conf).write(folder / "launch.json")
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "JAVA_HOME") if name in os.environ}
    began = time.monotonic()
    with (folder / "stdout.log").open("ab") as sink:
        driver = subprocess.Popen(
            [sys.executable, "-m", "lakeward.driver", str(folder / "launch.json")], stdin=subprocess.DEVNULL,
            stdout=sink, stderr=sink, start_new_session=True, cwd="/", env={**clean, "PGPASSFILE": str(passwords)},
        )  # fmt: skip
    try:
        producer = Producer(broker.bootstrap, arguments.streams)
        for batch in range(1, WARM_BATCHES + 1):
            producer.send(20)
            until("a batch of every stream", lambda n=batch: landed(connect, arguments.streams, n), driver, folder)
        ready = time.monotonic() - began
        rounds = []
        for _ in range(arguments.rounds):
            before, at, landed_before = cpu_seconds(driver.pid), time.monotonic(), recorded(connect)
            end = at + arguments.seconds
            while (left := end - time.monotonic()) > 0:
                if arguments.rate:
                    producer.send(arguments.rate)
                time.sleep(min(1.0, left))
            took, after = time.monotonic() - at, cpu_seconds(driver.pid)
            cores = {name: (after[name] - before.get(name, 0.0)) / took for name in after}
            done = recorded(connect) - landed_before
            spent = sum(cores.values()) * took / done if done else None
            rounds.append({
                "cores": sum(cores.values()), **cores, "pss": pss_bytes(driver.pid), "batches": done,
                "cpu_s_a_batch": spent,
            })  # fmt: skip
            print(json.dumps(rounds[-1]), file=sys.stderr)
        threads = {each.name(): each.num_threads() for each in tree(driver.pid)}
        sizes = {
            str(each.relative_to(folder)): each.stat().st_size for each in sorted(folder.rglob("*")) if each.is_file()
        }
    finally:
        driver.send_signal(signal.SIGTERM)
        driver.wait(180)
    count = arguments.streams
    each = [one["cores"] / count for one in rounds]
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "streams": count,
        "every": arguments.every,
        "rate": arguments.rate,
        "conf": conf,
        "ready_s": round(ready, 1),
        "cores_a_stream": {"median": round(statistics.median(each), 4), "all": [round(one, 4) for one in each]},
        "cpu_s_a_batch": [round(one["cpu_s_a_batch"], 4) for one in rounds if one["cpu_s_a_batch"] is not None],
        "cores": {name: round(statistics.median(one[name] for one in rounds), 3) for name in ("python", "java")},
        "pss_mb": {
            name: round(max(one["pss"][name] for one in rounds) / 2**20) for name in ("python", "java")
        } | {"total": round(max(sum(one["pss"].values()) for one in rounds) / 2**20)},
        "threads": threads,
        "event_log_bytes": sum(size for name, size in sizes.items() if name.startswith("events")),
        "exit_code": driver.returncode,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--every", default="10s")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--conf", action="append", default=[], help="Spark conf of the driver, NAME=VALUE")
    parser.add_argument("--keep", action="store_true", help="keep the folder, to look at its logs")
    arguments = parser.parse_args()
    jars.ensure()
    scratch = Path(tempfile.mkdtemp(prefix="lakeward-bench-"))
    scratch.chmod(0o755)  # the servers run as a user of their own
    try:
        with ExitStack() as held:
            print(json.dumps(measure(arguments, held, scratch)))
    finally:
        if arguments.keep:
            print(scratch, file=sys.stderr)
        else:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
