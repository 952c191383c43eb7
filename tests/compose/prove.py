"""`make compose-test`: docker-compose.yml runs, its containers are killed in turn, and the landed rows are exact.

It makes the images, brings the stack up in a folder of its own, deploys the demo's stream `flights`, lands records
while containers are killed, compares the table with the topic, takes everything down and writes a report.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import engine
import report
from engine import ROOT, docker, run

from lakeward.demo import flights

PROJECT = "lakeward-compose-test"
REPORT = ROOT / "docs/reference/compose-test.md"
STREAM, TABLE, TOPIC = "flights", "nyc.flights", "flights"
KILLED = ("scheduler", "api-server", "triggerer", "dag-processor", "checker", "connect", "postgres", "kafka")
PORTION = 2_000
PATIENCE_S = 1200.0
SEED = 1

PRODUCE = """
import base64, json, sys
from confluent_kafka import Producer
lost = []
producer = Producer({"bootstrap.servers": "kafka:9092", "enable.idempotence": True, "message.timeout.ms": 600000})
for line in sys.stdin:
    key, value = (None if text is None else base64.b64decode(text) for text in json.loads(line))
    producer.poll(0)
    producer.produce(%r, value, key, on_delivery=lambda error, message: lost.append(error) if error else None)
left = producer.flush(600)
sys.exit(f"{left} records left, {len(lost)} refused" if left or lost else 0)
"""
TOPICS = "from lakeward.stack.kafka import create_topic; create_topic('kafka:9092', %r, 3)"


def compose_command() -> list[str]:
    """Compose as this machine has it: the plugin, or the program of version 1."""
    plugin = subprocess.run([engine.CLIENT, "compose", "version"], capture_output=True, check=False)
    return [engine.CLIENT, "compose"] if plugin.returncode == 0 else ["docker-compose"]


@dataclass
class Stack:
    """The composed stack of one test."""

    folder: Path
    command: list[str] = field(default_factory=compose_command)

    def compose(self, *arguments: str, check: bool = True, give: str | None = None) -> str:
        """The output of a compose command."""
        base = [*self.command, "--project-name", PROJECT, "--file", str(self.folder / "docker-compose.yml")]
        return run(*base, *arguments, check=check, give=give)

    def write(self) -> None:
        """The folder of a deployment: the compose file, the demo's stream `flights`, the Dags, and the secrets."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "conf/streams").mkdir(parents=True)
        for name in (
            "docker-compose.yml",
            "conf/lakeward.yaml",
            "conf/streams/flights.yaml",
            "conf/streams/flights.sql",
        ):
            shutil.copy2(ROOT / name, self.folder / name)
        shutil.copytree(ROOT / "conf/reference", self.folder / "conf/reference")
        (self.folder / "dags").mkdir()
        shutil.copy2(ROOT / "dags/lakeward_streams.py", self.folder / "dags")
        (self.folder / "expectations").mkdir()
        shutil.copy2(ROOT / "expectations/nyc.flights.yaml", self.folder / "expectations")
        run(sys.executable, "-m", "lakeward", "init", "--compose", str(self.folder))

    def container(self, service: str) -> str:
        """The id of a service's container."""
        return self.compose("ps", "--quiet", service).strip()

    def inside(self, *command: str, give: str | None = None, check: bool = True) -> str:
        """The output of a command in the container for people's commands."""
        return docker("exec", "--interactive", self.container("control"), *command, give=give, check=check)

    def lakeward(self, *arguments: str, check: bool = True) -> dict[str, Any]:
        """The JSON that a command of `lakeward` prints; empty if it fails."""
        text = self.inside("lakeward", *arguments, "-o", "json", check=check)
        try:
            document: dict[str, Any] = json.loads(text)
        except ValueError:
            return {}
        return document

    def state(self, service: str) -> tuple[str, str]:
        """The health of a service's container, and when it started."""
        form = "{{.State.Health.Status}} {{.State.StartedAt}}"
        health, started = docker("inspect", "--format", form, self.container(service)).split()
        return health, started

    def wait(self, service: str, *, after: str = "") -> float:
        """Wait until a service is healthy, in a start later than `after`; returns the seconds."""
        begin = time.monotonic()
        while True:
            health, started = self.state(service)
            if health == "healthy" and started != after:
                return time.monotonic() - begin
            if time.monotonic() - begin > PATIENCE_S:
                said = docker("logs", "--tail", "30", self.container(service))
                raise SystemExit(f"{service} is {health} after {PATIENCE_S:.0f} s: {said}")
            time.sleep(1)

    def kill(self, service: str) -> str:
        """SIGKILL to a container's first process, as by the kernel: `docker kill` would switch its restart off."""
        _, started = self.state(service)
        os.kill(int(docker("inspect", "--format", "{{.State.Pid}}", self.container(service))), signal.SIGKILL)
        return started

    def produce(self, records: Iterator[flights.Record], count: int) -> int:
        """Send the next records to the topic; returns how many there were."""
        portion = list(islice(records, count))
        coded = ([_coded(each.key), _coded(each.value)] for each in portion)
        self.inside("python", "-c", PRODUCE % TOPIC, give="".join(json.dumps(each) + "\n" for each in coded))
        return len(portion)

    def landed(self, produced: int) -> tuple[float, dict[str, Any]]:
        """Wait until every record is landed, as the audit counts; returns the seconds and the audit."""
        begin = time.monotonic()
        while True:
            audit = self.lakeward("streams", "audit", STREAM, check=False)
            if audit and landed_of(audit) >= produced:
                return time.monotonic() - begin, audit
            if time.monotonic() - begin > PATIENCE_S:
                status = self.inside("lakeward", "streams", "status", STREAM, check=False)
                raise SystemExit(f"of {produced} records, after {PATIENCE_S:.0f} s the audit says {audit}\n{status}")
            time.sleep(3)


def _coded(part: bytes | None) -> str | None:
    return None if part is None else base64.b64encode(part).decode()


def landed_of(audit: dict[str, Any]) -> int:
    """Source positions that are in the tables of an audit."""
    return int(audit.get("landed", 0)) + int(audit.get("quarantined", 0))


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=Path("/var/tmp/lakeward-compose"), help="the engine's own folder"
    )  # large
    parser.add_argument("--keep", action="store_true", help="leave the stack running")
    parser.add_argument("--no-build", action="store_true", help="use the images that are there")
    parser.add_argument("--kill", nargs="*", default=list(KILLED), help="the services to kill, in this order")
    parser.add_argument("--report", type=Path, default=REPORT)
    given = parser.parse_args()
    host = engine.Engine(given.data)
    stack = Stack(ROOT / ".lakeward/compose-test")
    host.start()
    try:
        facts = prove(stack, given)
        text = report.page(facts)
        given.report.write_text(text, encoding="utf-8")
        print(text)
    finally:
        if not given.keep:
            stack.compose("down", "--volumes", "--timeout", "10", check=False)
            shutil.rmtree(stack.folder, ignore_errors=True)
            host.stop()
    return 0 if facts["exact"] else 3


def say(text: str) -> None:
    """One line of progress."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def prove(stack: Stack, given: argparse.Namespace) -> dict[str, Any]:
    """Everything between the start of the engine and the report."""
    facts: dict[str, Any] = {"rows": [], "portion": PORTION}
    say("images")
    facts["stand_ins"] = engine.stand_ins(given.data / "work")
    if not given.no_build:
        engine.build(("airflow",))
    stack.write()
    stack.compose("down", "--volumes", "--timeout", "10", check=False)
    say("up")
    begin = time.monotonic()
    stack.compose("up", "--detach", "--no-build")
    for service in ("postgres", "kafka", "connect", "checker", "api-server", "scheduler", "dag-processor", "triggerer"):
        stack.wait(service)
        say(f"  {service} is healthy")
    facts["up_s"] = time.monotonic() - begin
    stack.inside("python", "-c", TOPICS % TOPIC)
    stack.lakeward("deploy")
    records = flights.replay(flights.load(), seed=SEED)
    produced = stack.produce(records, PORTION)
    took, _ = stack.landed(produced)
    facts["first_s"] = took
    say(f"{produced} records landed in {took:.0f} s")
    killed(stack, facts, given.kill, records, produced)
    checked = stack.lakeward("quality", "run", TABLE, check=False)
    facts["check"] = checked.get("verdict", "-")
    facts["exact"] = all(row[-1] == "exact" for row in facts["rows"])
    facts["engine"] = docker("version", "--format", "{{.Server.Version}}").strip()
    facts["compose"] = run(*stack.command, "version").splitlines()[0]
    return facts


def killed(
    stack: Stack, facts: dict[str, Any], services: Sequence[str], records: Iterator[flights.Record], produced: int
) -> None:
    """Kill the containers in turn; after each kill the landed rows are compared with the topic."""
    for service in services:
        before = stack.kill(service)
        produced += stack.produce(records, PORTION) if service != "kafka" else 0
        healthy = stack.wait(service, after=before)
        if service == "kafka":
            produced += stack.produce(records, PORTION)
        took, audit = stack.landed(produced)
        wrong = {name: audit.get(name) for name in ("missing", "duplicates", "unverified") if audit.get(name) != 0}
        facts["rows"].append((service, healthy, took, produced, "exact" if not wrong else json.dumps(wrong)))
        say(f"{service} killed: healthy after {healthy:.0f} s, all landed after {took:.0f} s more: {wrong or 'exact'}")
        facts["audit"] = audit


if __name__ == "__main__":
    raise SystemExit(main())
