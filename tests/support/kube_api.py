"""What the API server of Kubernetes answers about pods, from pods and refusals that a test sets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lakeward.connectors.kubernetes.access import Access
from lakeward.connectors.kubernetes.client import Api

PODS = "/api/v1/namespaces/streams/pods"


class KubeApi:
    """One API server with the namespace `streams`.

    Attributes:
        pods: by name.
        calls: method and path of each request.
        bodies: of each request with one.
        refusals: method and path prefix -> status and body that are sent instead.
        drop: how many answers are lost after their request was carried out.
        denied: verbs that a login may not use.
    """

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.logins: list[str | None] = []
        self.refusals: dict[str, tuple[int, dict[str, Any]]] = {}
        self.drop = 0
        self.denied: set[str] = set()
        self.ends_at_once = True
        self.port = self._uid = 0

    @property
    def api(self) -> Api:
        return Api(Access(f"http://127.0.0.1:{self.port}", "a test", None, lambda: "a-token"))

    def status_of(self, name: str, **status: Any) -> None:
        self.pods[name]["status"] = status

    def answer(self, method: str, address: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(address)
        self.calls.append(f"{method} {parts.path}")
        for start, refusal in self.refusals.items():
            if f"{method} {parts.path}".startswith(start):
                return refusal
        if parts.path == "/version":
            return 200, {"gitVersion": "v1.36.3"}
        if parts.path.endswith("selfsubjectaccessreviews"):
            verb = body["spec"]["resourceAttributes"]["verb"]
            return 201, {"status": {"allowed": verb not in self.denied}}
        if parts.path == "/api/v1/namespaces/streams":
            return 200, {"status": {"phase": "Active"}}
        if not parts.path.startswith(PODS):
            return 404, refused("NotFound", "namespaces not found", "namespaces")
        name = parts.path.removeprefix(PODS).strip("/")
        if method == "GET" and not name:
            return 200, {"items": self._selected(parse_qs(parts.query)["labelSelector"][0]), "metadata": {}}
        if method == "POST":
            return self._create(body)
        if name not in self.pods:
            return 404, refused("NotFound", f'pods "{name}" not found', "pods")
        if method == "DELETE":
            if body["preconditions"]["uid"] != self.pods[name]["metadata"]["uid"]:
                return 409, refused("Conflict", "the UID in the precondition is another", "pods")
            if self.ends_at_once or body["gracePeriodSeconds"] == 0:
                return 200, self.pods.pop(name)
            self.pods[name]["metadata"]["deletionTimestamp"] = "2026-11-29T07:00:00Z"
        return 200, self.pods[name]

    def _create(self, pod: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = pod["metadata"]["name"]
        if name in self.pods:
            return 409, refused("AlreadyExists", f'pods "{name}" already exists', "pods")
        self._uid += 1
        made = {**pod, "metadata": {**pod["metadata"], "uid": f"uid-{self._uid}"}, "status": {"phase": "Pending"}}
        self.pods[name] = made
        return 201, made

    def _selected(self, selector: str) -> list[dict[str, Any]]:
        wanted = dict(part.split("=") for part in selector.split(","))
        return [pod for pod in self.pods.values() if wanted.items() <= pod["metadata"]["labels"].items()]


def refused(reason: str, message: str, kind: str = "pods") -> dict[str, Any]:
    """The body of a refusal."""
    return {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "details": {"kind": kind}}


@contextmanager
def running() -> Iterator[KubeApi]:
    """A server on a port of loopback."""
    kube = KubeApi()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            kube.logins.append(self.headers.get("Authorization"))
            if body:
                kube.bodies.append(body)
            code, found = kube.answer(self.command, self.path, body)
            if kube.drop:
                kube.drop -= 1
                self.close_connection = True
                return
            text = json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def do_DELETE(self) -> None:
            self._serve()

        def log_message(self, *_: object) -> None:
            """Nothing: a test prints no log of a server."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kube.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield kube
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
