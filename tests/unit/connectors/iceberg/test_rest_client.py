"""A REST catalog that says nothing, or fails, is a dependency that is down, and the same client goes on afterwards."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitStateUnknownException

from lakeward.connectors.iceberg import catalog, rest_client
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import CATALOG, Lake


def connect(port: int) -> Catalog:
    lake = Lake(warehouse="s3://lake", properties={"type": "rest", "uri": f"http://127.0.0.1:{port}"})
    return load_catalog(CATALOG, **catalog.pyiceberg_properties(lake))


class Answers(BaseHTTPRequestHandler):
    """Answers `status` to everything but the first question of a client, or nothing (0)."""

    status: ClassVar[int] = 200
    over: ClassVar[threading.Event]

    def do_GET(self) -> None:
        status = 200 if self.path.startswith("/v1/config") else type(self).status
        if not status:
            self.over.wait()
            return
        body: dict[str, Any] = {"defaults": {}, "overrides": {}, "namespaces": [["n"]]}
        text = json.dumps(body if status == 200 else {"error": {"message": "m", "type": "t", "code": status}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    from http.server import ThreadingHTTPServer

    monkeypatch.setattr(rest_client, "ANSWER_S", 0.3)
    Answers.status, Answers.over = 200, threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        Answers.over.set()
        made.shutdown()


def test_a_catalog_that_never_answers_hangs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "ANSWER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(DependencyDown, match="REST catalog") as down:
        connect(silent.getsockname()[1])
    assert "/v1/config" in down.value.why


@pytest.mark.parametrize("status", [0, 500, 502, 503])
def test_one_client_goes_on_after_a_silence_and_an_error_of_the_server(server: HTTPServer, status: int) -> None:
    lake = connect(server.server_port)
    assert lake.list_namespaces() == [("n",)]
    Answers.status = status
    with pytest.raises(DependencyDown, match="REST catalog"):
        lake.list_namespaces()
    Answers.status = 200
    assert lake.list_namespaces() == [("n",)]


def test_a_commit_whose_end_is_unknown_stays_unknown(server: HTTPServer) -> None:
    from unittest.mock import Mock

    lake = connect(server.server_port)
    Answers.status = 502
    table = Mock()
    table.name.return_value = ("n", "t")
    with pytest.raises(CommitStateUnknownException):
        lake.commit_table(table, (), ())
