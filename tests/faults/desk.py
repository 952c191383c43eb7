"""What an on-call engineer has: a project and the command line."""

from __future__ import annotations

import io
import itertools
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from typed import commands, parsed
from world import World

MOST = 6
"""Steps until the stream must be healthy."""


_SPARK = re.compile(r"lakeward (?:deploy|streams (?:upgrade|rollback|preview|rebuild|state))")
"""Commands that have a process of their own, as with a person: the Spark session of one must not stay in the tests'."""

_ASKS = re.compile(r"lakeward streams (?:reset|skip-batch) (\S+)")
"""Commands that show their plan and ask for the name of the stream."""


_PSQL = re.compile(r"in psql: ([^;]+);")
"""A statement that a person runs in the database of a sink."""


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

    def psql(self, statement: str) -> None:
        """Run a statement in the database of a sink, as a person does in psql."""
        from lakeward.connectors.postgres import connection

        self.typed.append(statement)
        with closing(connection.connect(self.world.runtime.postgres["there"], self.world.pgpass, "a person")) as link:
            with link.cursor() as cursor:
                cursor.execute(statement)
            link.commit()

    def status(self, stream: str) -> dict[str, Any]:
        return dict(json.loads(self.type(f"lakeward streams status {stream}", "-o", "json")[1]))

    def started(self, stream: str) -> dict[str, Any]:
        """The status of a stream, once it is no longer starting: until then there is nothing to do."""
        seen: list[dict[str, Any]] = []

        def over() -> bool:
            seen.append(self.status(stream))
            return seen[-1]["state"] != "starting"

        self.world.wait_for("the end of the start", over)
        return seen[-1]

    def healthy_by_its_next(
        self, stream: str | Callable[[], str], correct: Callable[[], None] = lambda: None
    ) -> list[str]:
        """Type the first way of `next` until the stream is healthy; `correct` does what the way says in prose first."""
        said: list[str] = []
        for _ in range(MOST):
            found = self.started(stream if isinstance(stream, str) else stream())  # a new id is another stream
            if found["state"] == "healthy":
                return said
            way = found["next_text"].split("; or ")[0].split("; and since supervision")[0]
            said.append(way)
            if not way.startswith("lakeward"):
                correct()
            for statement in _PSQL.findall(way):
                self.psql(statement)
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
    numbers = itertools.count(first)
    with repeating(lambda: world.numbers(topic, [next(numbers)]), 0.5):
        yield


@contextmanager
def repeating(act: Callable[[], object], every_s: float) -> Iterator[None]:
    """Act again and again, in a thread, while it is open."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            act()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
