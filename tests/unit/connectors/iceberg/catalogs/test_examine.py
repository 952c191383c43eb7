"""What a REST catalog lacks or refuses is said before a stream finds out."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from lakeward.connectors.iceberg.catalogs import answers
from lakeward.connectors.iceberg.catalogs.answers import ASKED, SHOWN, Answer
from lakeward.connectors.iceberg.catalogs.examine import LISTS, NEEDED, USEFUL, _tables, answers_of, commits, endpoints
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Lake


class Server(BaseHTTPRequestHandler):
    """A catalog with the namespaces `a` and `b` and the table `a.t`.

    Attributes:
        endpoints: those it says it has; None: it does not say.
        status: (method, last part of the address) -> the status of the answer, where it is not the right one.
        config: of a loaded table.
        text: as `status`, for answers that are no catalog's.
        posted: the last part of the address and the body of each POST, in order.
    """

    endpoints: ClassVar[list[str] | None] = None
    status: ClassVar[dict[tuple[str, str], int]] = {}
    config: ClassVar[dict[str, str]] = {}
    text: ClassVar[dict[tuple[str, str], str]] = {}
    posted: ClassVar[list[tuple[str, Any]]] = []

    def do_GET(self) -> None:
        self._answer("GET", 200)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).posted.append((self.path.rpartition("/")[2], body))
        self._answer("POST", 409)

    def _answer(self, method: str, right: int) -> None:
        cls = type(self)
        path = self.path.partition("?")[0]
        asked = (method, "/".join(path.split("/")[-2:]))
        status = cls.status.get(asked, right)
        body: dict[str, Any] = {"defaults": {}, "overrides": {}, "namespaces": [["a"], ["b"]], "config": cls.config}
        body["identifiers"] = [{"namespace": ["a"], "name": "t"}] if path.endswith("/a/tables") else []
        if cls.endpoints is not None:
            body["endpoints"] = cls.endpoints
        error = {"error": {"message": "not you", "type": "t", "code": status}}
        text = (cls.text.get(asked) or json.dumps(body if status == 200 else error)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    Server.endpoints, Server.status, Server.config, Server.text, Server.posted = None, {}, {}, {}, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def ask(port: int) -> dict[str, Answer]:
    lake = Lake(warehouse="/w", properties={"type": "rest", "uri": f"http://127.0.0.1:{port}"})
    return {answer.name: answer for answer in answers_of(lake)}


def test_a_server_that_allows_everything(server: HTTPServer) -> None:
    found = ask(server.server_port)
    assert [answer.name for answer in found.values() if not answer.ok] == []
    assert found["catalog namespaces"].found == "1 table in 2 top-level namespaces"
    assert found["catalog commit"].found == "allowed in a.t"
    assert "machine's own identity" in found["catalog credentials"].found
    Server.config = {"s3.access-key-id": "k3y"}
    vended = ask(server.server_port)["catalog credentials"]
    assert vended.found == "vended for each table"
    assert "k3y" not in str(vended)


def test_a_server_that_is_away_is_the_only_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as port:
        number = port.getsockname()[1]
    [answer] = ask(number).values()
    assert (answer.ok, answer.severe) == (False, True)
    assert "does not answer" in answer.found


def test_an_address_of_something_else_is_the_only_answer(server: HTTPServer) -> None:
    Server.status = {("GET", "v1/config"): 404}
    [answer] = ask(server.server_port).values()
    assert (answer.ok, answer.severe, "correct uri:" in answer.next) == (False, True, True)
    Server.status, Server.text = {}, {("GET", "v1/config"): "<html>welcome</html>"}
    [page] = ask(server.server_port).values()
    assert (page.name, page.ok, page.severe) == ("catalog", False, True)


def test_a_refused_login_is_the_only_answer(server: HTTPServer) -> None:
    Server.status = {("GET", "v1/config"): 401}
    [answer] = ask(server.server_port).values()
    assert (answer.name, answer.ok, answer.severe) == ("catalog", False, True)
    assert "refuses the login" in answer.found


def test_every_request_contradicts_what_there_is(server: HTTPServer) -> None:
    ask(server.server_port)
    (commit, change), (create, new) = Server.posted
    assert (commit, change["updates"]) == ("t", [])
    assert [each["type"] for each in change["requirements"]] == ["assert-table-uuid"]
    assert (create, new["name"], new["stage-create"]) == ("tables", "t", True), "a table that exists"
    Server.status, Server.posted = {("GET", "a/tables"): 404}, []
    found = ask(server.server_port)
    assert (found["catalog commit"].found, found["catalog create"].found) == (answers.NO_TABLE, answers.NO_TABLE)
    assert Server.posted == []


@pytest.mark.parametrize(
    ("asked", "text", "status", "name", "words"),
    [
        (("GET", "b/tables"), "<html>", 200, "catalog namespaces", "not listed: b (ValidationError"),
        (("GET", "b/tables"), "", 500, "catalog namespaces", "not listed: b (The REST catalog does not answer"),
        (("GET", "b/tables"), "", 400, "catalog namespaces", "not listed: b (BadRequestError"),
        (("GET", "tables/t"), "<html>", 200, "catalog credentials", "a.t: JSONDecodeError"),
        (("GET", "tables/t"), "", 403, "catalog credentials", "a.t: The REST catalog refuses a privilege: GET "),
        (("POST", "tables/t"), "", 503, "catalog commit", "a.t: The REST catalog does not answer"),
        (("POST", "a/tables"), "", 503, "catalog create", "a: The REST catalog does not answer"),
        (("POST", "a/tables"), "", 400, "catalog create", "a: HTTP status 400"),
    ],
)
def test_what_fails_is_one_line_with_its_words(
    server: HTTPServer, asked: tuple[str, str], text: str, status: int, name: str, words: str
) -> None:
    Server.status, Server.text = {asked: status}, {asked: text}
    [answer] = [each for each in ask(server.server_port).values() if not each.ok]
    assert (answer.name, answer.severe) == (name, False)
    assert words in answer.found
    assert "grant" not in answer.next or status == 403


def test_a_table_that_was_dropped_since_says_nothing_about_credentials(server: HTTPServer) -> None:
    Server.status = {("GET", "tables/t"): 404}
    assert ask(server.server_port)["catalog credentials"].found == "not tested: HTTP status 404 from a.t"
    Server.status, Server.text = {}, {("GET", "tables/t"): "[1]"}
    assert ask(server.server_port)["catalog credentials"].found.startswith("not tested")


def test_what_the_login_may_not_do_is_named_and_the_rest_is_found(server: HTTPServer) -> None:
    Server.status = {("GET", "b/tables"): 403, ("POST", "tables/t"): 403, ("POST", "a/tables"): 403}
    found = ask(server.server_port)
    assert {name: answer.severe for name, answer in found.items() if not answer.ok} == {
        "catalog namespaces": False, "catalog commit": False, "catalog create": False,
    }  # fmt: skip
    assert found["catalog namespaces"].next == answers.NOT_LISTED
    assert "others need none" in found["catalog commit"].next
    assert "by hand" in found["catalog create"].next
    assert "1 table in 2 top-level namespaces; not allowed to list b" in found["catalog namespaces"].found
    assert "not you" in found["catalog commit"].found


def test_a_server_that_ignores_requirements_is_refused() -> None:
    answer = commits(200, "a.t")
    assert (answer.ok, answer.severe) == (False, True)
    assert "do not land in this catalog" in answer.next
    assert commits(409, "a.t").found == "allowed in a.t"
    assert (commits(400, "a.t").ok, commits(500, "a.t").ok) == (True, False)


def test_endpoints_that_are_missing_say_what_is_refused(server: HTTPServer) -> None:
    Server.endpoints = ["GET /v1/{prefix}/namespaces", "GET /v1/{prefix}/namespaces/{namespace}/tables",
                        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"]  # fmt: skip
    answer = ask(server.server_port)["catalog endpoints"]
    assert (answer.ok, answer.severe) == (False, True)
    assert "no update table: nothing lands" in answer.found
    assert Server.posted == [], "what is not supported is not tried"
    useful = endpoints([*NEEDED])
    assert (useful.ok, useful.severe) == (False, False)
    assert endpoints([*NEEDED, *USEFUL]).ok


@pytest.mark.parametrize("left_out", sorted(LISTS))
def test_without_lists_the_endpoints_are_the_last_line(server: HTTPServer, left_out: str) -> None:
    there = {"V1_LIST_NAMESPACES": "GET /v1/{prefix}/namespaces",
             "V1_LIST_TABLES": "GET /v1/{prefix}/namespaces/{namespace}/tables"}  # fmt: skip
    Server.endpoints = [text for name, text in there.items() if name != left_out]
    found = ask(server.server_port)
    assert list(found) == ["catalog", "catalog endpoints"]
    assert found["catalog endpoints"].severe


def test_a_server_that_is_down_is_not_asked_for_every_namespace() -> None:
    class Down:
        requests = 0

        def list_tables(self, space: tuple[str, ...]) -> None:
            self.requests += 1
            raise DependencyDown("The REST catalog does not answer", code="LW-3424")

    down: Any = Down()
    tables, refused, failed = _tables(down, [(f"n{number}",) for number in range(20)])
    assert (tables, refused, len(failed), down.requests) == ([], [], SHOWN, SHOWN)


def test_few_namespaces_are_asked_of_many() -> None:
    found = answers.namespaces(ASKED + 1, 3, []).found
    assert found == f"3 tables in the first {ASKED} of {ASKED + 1} top-level namespaces"
    many = answers.namespaces(9, 0, [f"n{number}" for number in range(7)])
    assert many.found.endswith("n4 and 2 more")
