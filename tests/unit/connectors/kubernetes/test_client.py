"""Calls to the API of Kubernetes: trust, pages, and answers that are none."""

from __future__ import annotations

import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from kube_api import KubeApi, running

from lakeward.connectors.kubernetes import client
from lakeward.connectors.kubernetes.access import Access
from lakeward.connectors.kubernetes.client import Api
from lakeward.platform.errors import DependencyDown


def test_a_certificate_that_is_not_trusted_is_named(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *more], check=True, capture_output=True)
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"https://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(DependencyDown) as error:
            Api(Access(url, "prod.kubeconfig", ssl.create_default_context(), str)).version()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert error.value.code == "LW-2550"
    assert "certificate-authority in prod.kubeconfig" in error.value.next


def test_a_server_that_is_away_and_an_answer_without_json_are_silence() -> None:
    with pytest.raises(DependencyDown) as error:
        Api(Access("http://127.0.0.1:1", "a test", None, str)).version()
    assert error.value.code == client.UNANSWERED


def test_all_pages_of_a_list_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"": ["a", "b"], "next": ["c"]}
    asked: list[str] = []

    def call(self: Api, method: str, path: str) -> tuple[int, dict[str, object]]:
        asked.append(path)
        more = "" if "continue=" in path else "next"
        items = [{"metadata": {"name": name}} for name in pages["next" if not more else ""]]
        return 200, {"items": items, "metadata": {"continue": more}}

    monkeypatch.setattr(Api, "_call", call)
    found = Api(Access("http://h", "a test", None, str)).pods("streams", "a=b")
    assert list(found.by_name) == ["a", "b", "c"]
    assert [("continue=next" in path, "limit=1000" in path) for path in asked] == [(False, True), (True, True)]


def test_the_time_of_a_list_is_that_of_the_server() -> None:
    kube: KubeApi
    with running() as kube:
        assert kube.api.pods("streams", "a=b").at > 0
