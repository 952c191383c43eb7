"""A REST catalog that says nothing, fails or refuses the login is a dependency that is down.

The same client goes on afterwards.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import rest_login
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitStateUnknownException
from rest_login import Login

from lakeward.connectors.iceberg import catalog
from lakeward.connectors.iceberg.catalogs import login_manager, rest_requests
from lakeward.jars import own
from lakeward.platform import private
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import CATALOG, CatalogLogin, Lake, ObjectStore


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

    monkeypatch.setattr(rest_requests, "ANSWER_S", 0.3)
    Answers.status, Answers.over = 200, threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        Answers.over.set()
        made.shutdown()


def test_a_catalog_that_never_answers_hangs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_requests, "ANSWER_S", 0.3)
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


@pytest.fixture
def login() -> Iterator[HTTPServer]:
    with rest_login.running() as made:
        yield made


def log_in(port: int, **properties: str) -> Catalog:
    uri = f"http://127.0.0.1:{port}"
    given = {"type": "rest", "uri": uri, "oauth2-server-uri": f"{uri}/v1/oauth/tokens", **properties}
    return load_catalog(CATALOG, **catalog.pyiceberg_properties(Lake(warehouse="s3://lake", properties=given)))


@pytest.mark.parametrize("status", [401, 419])
def test_an_expired_token_is_renewed_and_the_request_sent_again(login: HTTPServer, status: int) -> None:
    lake = log_in(login.server_port, credential="i:s")
    Login.accepted, Login.status, Login.requests = 99, status, []
    assert lake.list_namespaces() == [("n",)]
    assert Login.requests == ["namespaces", "login", "namespaces"]


def test_a_credential_that_is_refused_is_a_dependency_and_corrected_without_a_new_client(login: HTTPServer) -> None:
    lake = log_in(login.server_port, credential="i:s")
    Login.accepted, Login.secret = 99, "changed"
    with pytest.raises(DependencyDown, match="refuses the login") as refused:
        lake.list_namespaces()
    assert "HTTP status 400: no such secret" in refused.value.why
    Login.secret = "s"
    assert lake.list_namespaces() == [("n",)]


def test_a_fixed_token_that_expired_is_a_dependency_and_asked_once(login: HTTPServer) -> None:
    lake = log_in(login.server_port, token="t0")
    Login.accepted, Login.requests = 1, []
    with pytest.raises(DependencyDown, match="refuses the login") as refused:
        lake.list_namespaces()
    assert "HTTP status 401: who are you" in refused.value.why
    assert Login.requests == ["namespaces"]


def test_a_privilege_that_is_missing_is_named(login: HTTPServer) -> None:
    lake = log_in(login.server_port, credential="i:s")
    Login.forbidden, Login.requests = True, []
    with pytest.raises(DependencyDown, match="refuses a privilege") as refused:
        lake.list_namespaces()
    assert "GET http://127.0.0.1" in refused.value.why
    assert "no LIST on n" in refused.value.why
    assert Login.requests == ["namespaces"]


class File:
    """A login file, and a client that uses it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port, self.folder = port, folder

    def write(self, **content: str) -> None:
        private.write(private.folder(self.folder / "iceberg") / "c.json", json.dumps(content))

    def connect(self) -> Catalog:
        login = CatalogLogin(connection="c", connections=self.folder)
        given = {"type": "rest", "uri": f"http://127.0.0.1:{self.port}"}
        lake = Lake(warehouse="/w", properties=given, login=login)
        return load_catalog(CATALOG, **catalog.pyiceberg_properties(lake))


@pytest.fixture
def file(login: HTTPServer, tmp_path: Path) -> File:
    return File(tmp_path, login.server_port)


def test_a_login_file_logs_in_once_for_many_requests(file: File) -> None:
    file.write(credential="i:s", scope="PRINCIPAL_ROLE:ALL", audience="a")
    lake = file.connect()
    assert lake.list_namespaces() == lake.list_namespaces() == [("n",)]
    # PyIceberg makes a session for the configuration, and one for everything else.
    assert Login.requests == ["login", "config", "login", "namespaces", "namespaces"]
    assert "scope=PRINCIPAL_ROLE%3AALL" in Login.form
    assert "audience=a" in Login.form


def test_a_credential_that_changes_in_the_file_is_taken_up(file: File) -> None:
    file.write(credential="i:wrong")
    with pytest.raises(DependencyDown, match="refuses the login"):
        file.connect()
    file.write(credential="i:s")
    lake = file.connect()
    Login.secret, Login.accepted = "rotated", 99
    with pytest.raises(DependencyDown, match="refuses the login"):
        lake.list_namespaces()
    file.write(credential="i:rotated")
    assert lake.list_namespaces() == [("n",)]


def test_a_token_is_renewed_before_it_expires(file: File) -> None:
    Login.life_s = 0.0001
    file.write(credential="i:s")
    lake = file.connect()
    Login.requests = []
    lake.list_namespaces()
    lake.list_namespaces()
    assert Login.requests == ["login", "namespaces"] * 2


def test_a_token_that_cannot_be_renewed_is_used_while_it_is_valid(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_manager, "LONGEST_S", 0.0)
    Login.life_s = 3600
    file.write(credential="i:s")
    lake = file.connect()
    lake.list_namespaces()
    Login.secret, Login.requests = "changed", []
    assert lake.list_namespaces() == lake.list_namespaces() == [("n",)]
    assert Login.requests == ["login", "namespaces", "namespaces"], "after a failure there is a pause"


@pytest.mark.parametrize("status", [401, 419])
def test_a_token_that_the_server_forgot_is_renewed(file: File, status: int) -> None:
    file.write(credential="i:s")
    lake = file.connect()
    lake.list_namespaces()
    Login.accepted, Login.status, Login.requests = 99, status, []
    assert lake.list_namespaces() == [("n",)]
    assert Login.requests == ["namespaces", "login", "namespaces"]


def test_a_token_of_the_file_is_asked_again_when_it_changed_only(file: File) -> None:
    Login.accepted = 7
    file.write(token="t7")
    lake = file.connect()
    assert lake.list_namespaces() == [("n",)]
    Login.accepted, Login.requests = 8, []
    with pytest.raises(DependencyDown, match="refuses the login"):
        lake.list_namespaces()
    assert Login.requests == ["namespaces"], "the same token is not sent twice"
    file.write(token="t8")
    assert lake.list_namespaces() == [("n",)]


def test_a_user_and_a_password(file: File) -> None:
    file.write(**{"rest.auth.basic.username": "u", "rest.auth.basic.password": "p"})
    assert file.connect().list_namespaces() == [("n",)]


def test_a_file_that_is_gone_is_named(file: File) -> None:
    file.write(credential="i:s")
    lake = file.connect()
    (file.folder / "iceberg" / "c.json").unlink()
    with pytest.raises(SpecError, match="does not exist"):
        lake.list_namespaces()


def test_no_secret_is_in_what_spark_gets(file: File) -> None:
    file.write(credential="i:s3cret")
    login = CatalogLogin(connection="c", connections=file.folder)
    lake = Lake(warehouse="/w", properties={"type": "rest", "uri": "http://h"}, login=login)
    conf = catalog.spark_conf(lake)
    assert conf["spark.sql.catalog.lake.rest.auth.lakeward.file"] == str(file.folder / "iceberg" / "c.json")
    assert conf["spark.sql.catalog.lake.header.X-Iceberg-Access-Delegation"] == "vended-credentials"
    assert "s3cret" not in str(conf) + str(catalog.pyiceberg_properties(lake)) + str(catalog.environment(lake))


@pytest.mark.parametrize(("connection", "asked"), [(None, True), ("s3", False)])
def test_credentials_are_asked_for_where_none_are_named(file: File, connection: str | None, asked: bool) -> None:
    private.write(private.folder(file.folder / "aws") / "s3.ini", "[default]\nregion = eu-central-1\n")
    store = ObjectStore(connection=connection, connections=file.folder)  # also that of checkpoints alone
    conf = catalog.spark_conf(Lake(warehouse="/w", properties={"type": "rest", "uri": "http://h"}, store=store))
    assert ("spark.sql.catalog.lake.header.X-Iceberg-Access-Delegation" in conf) == asked


def test_the_jar_of_the_login_is_the_last_of_the_class_path(file: File) -> None:
    plain = Lake(warehouse="/w", properties={"type": "rest", "uri": "http://h"})
    named = plain.model_copy(update={"login": CatalogLogin(connection="c", connections=file.folder)})
    assert catalog.libraries(named)[-1] == own.LOGIN_JAR
    assert own.LOGIN_JAR not in catalog.libraries(plain)
    assert any(jar.name.startswith("iceberg-aws-bundle") for jar in catalog.libraries(plain)), "for vended credentials"
    assert catalog.libraries(Lake(warehouse="/w")) == []


def test_the_class_path_of_a_user_stays_before_the_jars_of_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(warehouse="w", properties={"type": "rest", "uri": "http://127.0.0.1:1"})
    monkeypatch.delenv("SPARK_DIST_CLASSPATH", raising=False)
    own = catalog.environment(lake)["SPARK_DIST_CLASSPATH"]
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", "/hadoop/*")
    given = catalog.environment(lake)["SPARK_DIST_CLASSPATH"]
    assert given == f"/hadoop/*:{own}"
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", given)
    assert catalog.environment(lake)["SPARK_DIST_CLASSPATH"] == given, "no jar is there twice in a child process"
