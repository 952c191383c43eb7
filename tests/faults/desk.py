"""What an on-call engineer has: a project and the command line; and many streams on one driver to cause trouble on."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from typed import commands, parsed
from world import World, simple_stream

from lakeward.registry import drivers, generations, streams

MOST = 6
"""Steps until the stream must be healthy."""


_SPARK = re.compile(r"lakeward (?:deploy|streams (?:upgrade|rollback|preview|rebuild|state))")
"""Commands that have a process of their own, as with a person: the Spark session of one must not stay in the tests'."""

_ASKS = re.compile(r"lakeward streams (?:reset|skip-batch) (\S+)")
"""Commands that show their plan and ask for the name of the stream."""


def at_terminal(command: list[str], answer: str) -> tuple[int, str]:
    """Run a command in a terminal and answer its question; returns its exit code and what it printed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    said = b""
    with suppress(OSError):  # the end of a terminal
        while part := os.read(ours, 65536):
            said += part
    os.close(ours)
    return process.wait(600), said.decode()


def here(words: list[str], *, more: bool) -> tuple[int, str]:
    """Run a command in this process, which saves its imports; returns its exit code and what it printed."""
    from lakeward.cli.app import main

    out, err = io.StringIO(), io.StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue() if more else out.getvalue() + err.getvalue()


class Desk:
    """What on-call has: a project and the command line.

    Attributes:
        here: whether commands without Spark run in this process, which saves their imports.
    """

    def __init__(self, world: World, folder: Path, *, here: bool = False) -> None:
        self.world, self.here = world, here
        self.project, self.home = folder / "project", folder / "home"
        (self.project / "conf" / "streams").mkdir(parents=True)
        secrets = self.home / "secrets"
        secrets.mkdir(parents=True)
        (self.home / "runtime.json").write_text(world.runtime.model_dump_json())
        (secrets / "registry.url").write_text(world.url)
        shutil.copy(world.pgpass, secrets / "pgpass")
        (secrets / "pgpass").chmod(0o600)
        self.typed: list[str] = []

    def write(self, document: dict[str, Any]) -> None:
        """Write a stream's file; JSON is YAML."""
        document = {"owner": "tests", **document}
        (self.project / "conf" / "streams" / f"{document['id']}.yaml").write_text(json.dumps(document))

    def type(self, command: str, *more: str) -> tuple[int, str]:
        """Type a command; returns its exit code and what it printed."""
        self.typed.append(command)
        words = [*shlex.split(command)[1:], "--project", str(self.project), "--home", str(self.home), *more]
        whole = [sys.executable, "-m", "lakeward", *words]
        if asks := _ASKS.search(command):
            return at_terminal(whole, asks[1])
        if self.here and not _SPARK.search(command):
            return here(words, more=bool(more))
        done = subprocess.run(whole, capture_output=True, text=True, timeout=600, check=False)
        return done.returncode, done.stdout if more else done.stdout + done.stderr

    def done(self, command: str) -> None:
        """Type a command that must succeed."""
        if command.startswith("lakeward sql --write"):
            parsed(command)
            self.sql(shlex.split(command)[-1])  # this deployment has no Spark Connect server
            return
        code, told = self.type(command)
        assert code == 0, f"{command} ended with {code}: {told}"

    def sql(self, statement: str) -> None:
        """Run a statement as `lakeward sql` would, in a Spark of its own."""
        launch = max(self.world.runtime.drivers.rglob("launch.json"), key=lambda file: file.stat().st_mtime)
        script = Path(__file__).parents[1] / "support" / "lake_sql.py"
        command = [sys.executable, str(script), str(launch), str(self.home / f"sql-{len(self.typed)}"), statement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def status(self, stream: str) -> dict[str, Any]:
        return dict(json.loads(self.type(f"lakeward streams status {stream}", "-o", "json")[1]))

    def healthy_by_its_next(
        self, stream: str | Callable[[], str], correct: Callable[[], None] = lambda: None
    ) -> list[str]:
        """Type the first way of `next` until the stream is healthy; `correct` does what the way says in prose first."""
        said: list[str] = []
        for _ in range(MOST):
            found = self.status(stream if isinstance(stream, str) else stream())  # a new id is another stream
            if found["state"] == "healthy":
                return said
            way = found["next_text"].split("; or ")[0].split("; and since supervision")[0]
            said.append(way)
            if not way.startswith("lakeward"):
                correct()
            for command in commands(way):
                if "streams start" in command and "--wait" not in command:
                    command += " --wait"  # a person looks again a moment later
                self.done(command)
        raise AssertionError(f"the stream is not healthy after {said}")

    def blocked(self, stream: str) -> dict[str, Any]:
        self.world.wait_for(f"{stream} to be blocked", lambda: self.world.stream(stream).blocked)
        return self.status(stream)

    def exact(self, stream: str) -> None:
        code, told = self.type(f"lakeward streams audit {stream}", "-o", "json")
        assert code == 0, told
        assert (json.loads(told)["missing"], json.loads(told)["duplicates"]) == (0, 0)


@contextmanager
def sending(world: World, topic: str, first: int) -> Iterator[None]:
    """One record after another while it is open."""
    over = threading.Event()

    def send() -> None:
        at = first
        while not over.wait(0.5):
            world.numbers(topic, [at])
            at += 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Town:
    """Many streams on one driver, each with a topic and a table of its own."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.folder = desk.home.parent
        self.sent: dict[str, int] = {}
        self.topics: dict[str, str] = {}
        self.ids: dict[str, str] = {}

    def build(self, names: Sequence[str]) -> None:
        """Deploy and start the streams; one that is named `later` has no topic yet."""
        settings = {"drivers": {"town": {"cores": 2, "memory": "1500m", "compiler": "quick"}}}
        (self.desk.project / "conf" / "lakeward.yaml").write_text(json.dumps(settings))
        for name in names:
            self.ids[name], self.sent[name] = f"{self.desk.world.name}_{name}", 0
            if name == "files":
                (self.folder / "files").mkdir()
            elif name == "later":
                self.topics[name] = f"later-{uuid4().hex[:8]}"
            else:
                self.topics[name] = self.desk.world.kafka.create_topic()
            self.write(name)
            if name != "later":
                self.send(name)
        self.desk.done("lakeward deploy")
        # For the time of a lease after the registry came up, a pass launches nothing: drivers may still renew.
        self.desk.world.wait_for("the launch", self._launched)
        for name in names:
            if name not in ("later", "window"):
                self.desk.world.wait_landed(f"{self.desk.world.name}.{name}", self.ids[name], 1)

    def _launched(self) -> bool:
        self.desk.done("lakeward streams start --tag town --max-parallel 20")
        return any(self.desk.world.runtime.drivers.rglob("launch.json"))

    def write(self, name: str, **more: Any) -> None:
        """The file of a stream."""
        table = f"{self.desk.world.name}.{self.ids[name].removeprefix(self.desk.world.name + '_')}"
        made = simple_stream(
            self.ids[name], self.topics.get(name, ""), table, tags=["town"], resources={"driver": "town"},
            trigger={"every": "2s"}, restart={"max_backoff": "20s"},
        )  # fmt: skip
        if name == "window":
            made["source"]["watermark"] = {"column": "_kafka_timestamp", "delay": "1s"}
            sql = "SELECT window.end AS at, count(*) AS n FROM source GROUP BY window(_kafka_timestamp, '1 second')"
            made |= {"transform": {"sql": sql}, "lineage": "none"}
        elif name == "files":
            made["source"] = {
                "files": {"path": str(self.folder / "files"), "format": "json", "max_files_per_trigger": 10}
            }
            made |= {"lineage": "none"}
        elif name == "newer":
            made |= {
                "transform": {"sql": "SELECT *, 100 DIV (n - 7) AS part FROM source"},
                "restart": {"max_backoff": "1s"},
            }
        if name == "bad":
            del made["quarantine"]
        self.desk.write({key: value for key, value in {**made, **more}.items() if value is not None})

    def stream(self, name: str) -> str:
        return self.ids[name]

    def topic(self, name: str) -> str:
        return self.topics[name]

    def table(self, name: str) -> Any:
        return self.desk.world.catalog().load_table(f"{self.desk.world.name}.{name}")

    def checkpoint(self, name: str) -> Path:
        with self.desk.world.connect() as connection:
            row = streams.get(connection, self.ids[name])
            found = generations.get(connection, row.id, row.generation)
        assert found is not None
        return Path(self.desk.world.runtime.checkpoint_of(found.checkpoint).removeprefix("file://"))

    def later(self, name: str) -> None:
        """The topic of a stream is made."""
        self.desk.world.wait_for("the topic to be gone", lambda: self._make(name), 60)

    def _make(self, name: str) -> bool:
        from lakeward.stack.kafka import create_topic

        return create_topic(self.desk.world.kafka.bootstrap, self.topics[name], 1)

    def send(self, name: str) -> None:
        """Five records, none of which is 7."""
        first = 100 + self.sent[name]
        self.sent[name] += 5
        if name == "files":
            rows = "\n".join(json.dumps({"n": n, "s": f"row {n}"}) for n in range(first, first + 5))
            (self.folder / "files" / f"{first}.json").write_text(rows)
        else:
            self.desk.world.numbers(self.topics[name], range(first, first + 5))

    def land(self, name: str) -> None:
        """One more batch."""
        seq = self.seq(name)
        self.send(name)
        self.desk.world.wait_for("the batch", lambda: self.seq(name) > seq)

    def seq(self, name: str) -> int:
        return int((self.desk.world.position(f"{self.desk.world.name}.{name}", self.ids[name]) or {"seq": 0})["seq"])

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """The stream stopped; it is started again, and records come."""
        self.desk.done(f"lakeward streams stop {self.ids[name]} --wait")
        yield
        self.send(name)
        self.desk.done(f"lakeward streams start {self.ids[name]}")

    def settle(self, name: str) -> None:
        self.desk.world.wait_for("a batch", lambda: self.desk.status(self.ids[name])["state"] == "healthy")

    def renew(self, name: str) -> str:
        """Give the stream a new id and a new table, as the text says; returns the old id."""
        old = self.ids[name]
        (self.desk.project / "conf" / "streams" / f"{old}.yaml").unlink()
        self.ids[name] += "2"
        self.write(name)
        return old

    def kill(self) -> None:
        """SIGKILL of the driver and its JVM."""
        os.killpg(self.pid, signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP of the driver and its JVM."""
        os.killpg(self.pid, signal.SIGSTOP)

    @property
    def pid(self) -> int:
        with self.desk.world.connect() as connection:
            row = drivers.find(connection, "town")
        assert row is not None
        assert row.handle is not None
        return int(row.handle["pid"])

    def walk(self, name: str, correct: Callable[[], None] = lambda: None) -> list[str]:
        """Wait for the trouble, type the first way of `next` until the stream is healthy, and demand an exact audit."""
        down = ("blocked", "stalled", "restarting", "unknown")
        self.desk.world.wait_for("the trouble", lambda: self.desk.status(self.ids[name])["state"] in down, 300)
        said = self.desk.healthy_by_its_next(lambda: self.ids[name], correct)
        self.exact(name)
        return said

    def exact(self, name: str) -> None:
        """No record is missing or doubled; windows have no rows to compare."""
        code, told = self.desk.type(f"lakeward streams audit {self.ids[name]}", "-o", "json")
        found = json.loads(told)
        counted = (None, None) if found["lineage"] == "none" else (0, 0)
        assert (code, found["missing"], found["duplicates"]) == (0, *counted), told

    def end(self) -> None:
        with suppress(Exception):
            os.killpg(self.pid, signal.SIGKILL)
        self.desk.world.end()
