"""Context of every command: project, home, output, registry."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.cli.output import ConsoleOutput, Form, Output, make
from lakeward.platform.errors import LakewardError, Unhealthy
from lakeward.platform.runtime import Home, Project, Runtime, registry_url

if TYPE_CHECKING:
    from sqlalchemy import Connection

_FORMS = ("", *Form, *(f"={form}" for form in Form))
"""Suffixes of -o within one argument."""


@dataclass
class State:
    """The options every command takes, resolved."""

    project: Project = field(default_factory=Project.locate)
    home: Home = field(default_factory=Home.locate)
    output: Output = field(default_factory=ConsoleOutput)

    @property
    def runtime(self) -> Runtime:
        """The addresses of the running stack."""
        return Runtime.load(self.home.runtime_file)

    @property
    def kafka(self) -> list[str] | None:
        """The known Kafka connections; None without a stack."""
        from lakeward.connectors.kafka import cluster

        try:
            return cluster.names(self.runtime)
        except Unhealthy:
            return None

    def durations(self, streams: Collection[str]) -> dict[str, list[float]]:
        """Seconds of the newest batches of each stream; empty without a registry."""
        from lakeward.registry import batches

        try:
            with self.registry() as connection:
                return batches.durations(connection, streams)
        except LakewardError:
            return {}

    @contextmanager
    def registry(self) -> Iterator[Connection]:
        """One transaction on the registry."""
        from lakeward.registry.version import connect

        with connect(registry_url(self.home), pgpass=self.home.pgpass) as connection:
            yield connection


_state = State()


def state() -> State:
    """The state of this invocation."""
    return _state


def take_common_options(argv: Sequence[str]) -> list[str]:
    """Parse `-o`, `--project` and `--home` at any place, and return the other arguments.

    They work before and after the noun and the verb, so a script may append `-o json` to any command; typer binds an
    option to one level only.
    """
    global _state
    parser = argparse.ArgumentParser(prog="lakeward", add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--output", choices=[form.value for form in Form], default=Form.table.value)
    parser.add_argument("--project", type=Path)
    parser.add_argument("--home", type=Path)
    # argparse takes any argument that begins with -o for the option with its value: `--comment "-on call"`.
    texts = {f"\0{at}": word for at, word in enumerate(argv) if word.startswith("-o") and word[2:] not in _FORMS}
    words = {word: mark for mark, word in texts.items()}
    known, rest = parser.parse_known_args([words.get(word, word) for word in argv])
    project = Project.locate(known.project)
    _state = State(project, Home.locate(known.home, project), make(Form(known.output)))
    return [texts.get(word, word) for word in rest]
