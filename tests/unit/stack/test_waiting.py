"""A part is well only if it is the part that answers."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeward.jars import Java
from lakeward.platform import ports
from lakeward.platform.errors import Unhealthy
from lakeward.platform.runtime import Home, Project
from lakeward.stack import groups, waiting
from lakeward.stack.part import Part
from lakeward.stack.program import Program
from lakeward.stack.site import StackContext
from lakeward.stack.state import DEFAULT_PORTS, Process
from lakeward.stack.supervisor import Supervisor


class Answering(Part):
    """Whoever answers on its port is taken for it."""

    name = group = listens = "kafka"

    def program(self) -> Program:
        return Program(["/bin/true"], {})

    def healthy(self, since: datetime) -> bool:
        return ports.answers(self.site.ports["kafka"])


@pytest.fixture
def site(tmp_path: Path) -> StackContext:
    return StackContext(Project(tmp_path), Home(tmp_path / "home"), dict(DEFAULT_PORTS), Java(Path("/j/bin/java"), 17))


@pytest.fixture
def wait(site: StackContext) -> Iterator[Callable[[int], None]]:
    """Wait for a part of this session whose port this process serves."""
    with socket.socket() as server:
        server.bind((ports.HOST, 0))
        server.listen()
        site.ports["kafka"] = server.getsockname()[1]

        def run(session: int) -> None:
            leader = Process(pid=session, created=0, boot="")
            waiting.wait(Answering(site), Supervisor(site.home), datetime.now(UTC), threading.Event(), leader)

        yield run


def test_a_part_that_answers_itself_is_well(wait: Callable[[int], None]) -> None:
    wait(os.getsid(0))


def test_an_answer_of_another_process_is_no_start(wait: Callable[[int], None], site: StackContext) -> None:
    with pytest.raises(Unhealthy, match="Another process uses the port of kafka") as error:
        wait(os.getsid(0) + 1)
    assert f"process {os.getpid()} has taken 127.0.0.1:{site.ports['kafka']}" in error.value.why


def test_every_part_with_a_port_is_asked_whose_it_is(site: StackContext) -> None:
    served = {part.name: part.listens for part in groups.parts(site, groups.GROUPS) if part.listens}
    assert served == {
        "postgres": "postgres", "kafka": "kafka", "connect": "connect", "airflow-api-server": "airflow",
    }  # fmt: skip
