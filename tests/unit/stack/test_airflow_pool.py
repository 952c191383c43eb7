"""Airflow just after it came up: it may answer late, or not yet; a refusal is not asked again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lakeward.jars import Java
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Home, Project
from lakeward.stack import airflow_config, airflow_pool, private
from lakeward.stack.site import StackContext
from lakeward.stack.state import DEFAULT_PORTS


@pytest.fixture
def answers() -> list[int]:
    """The states the API answers with, one after the other; the last one for good."""
    return []


@pytest.fixture
def site(tmp_path: Path, answers: list[int]) -> Iterator[StackContext]:
    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(answers.pop(0) if len(answers) > 1 else answers[0])

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        at = {**DEFAULT_PORTS, "airflow": server.server_port}
        made = StackContext(Project(tmp_path), Home(tmp_path / "home"), at, Java(Path("/j/bin/java"), 17))
        file = airflow_config.passwords_file_of(made)
        private.folder(file.parent)
        private.write(file, '{"admin": "hunter2"}')
        yield made
        server.shutdown()


def test_what_does_not_answer_yet_is_asked_again_and_a_refusal_is_reported(
    site: StackContext, answers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_pool, "_RETRY_S", 0.05)
    answers += [503, 500, 409, 403]
    with pytest.raises(DependencyDown, match="403") as told:
        airflow_pool.ensure(site)
    assert answers == [403]
    assert "hunter2" not in str(told.value)


def test_patience_has_an_end(site: StackContext, answers: list[int]) -> None:
    answers += [503]
    with pytest.raises(DependencyDown, match="lakeward stack up"):
        airflow_pool.ensure(site, patience_s=0.0)
