"""What a ResourceManager answers by its REST API, from applications that a test sets; the forms are those of 3.4.2."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = "/ws/v1/cluster"


class YarnRm:
    """One ResourceManager.

    Attributes:
        apps: the applications, by id.
        queues: queue -> its state.
        calls: method and path of each request, without its query.
        killed: the applications it was asked to kill.
        refusals: method and path -> status and body that are sent instead; a text is no JSON.
        standby: whether it sends everybody to the active one.
    """

    def __init__(self) -> None:
        self.apps: dict[str, dict[str, Any]] = {}
        self.queues = {"root.default": "RUNNING", "root.closed": "STOPPED"}
        self.calls: list[str] = []
        self.killed: list[str] = []
        self.refusals: dict[str, tuple[int, object]] = {}
        self.standby = False
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, tags: str, **changed: Any) -> str:
        """An application that runs, or as a test wants it."""
        name = f"application_1795947879606_{len(self.apps) + 1:04}"
        self.apps[name] = {
            "id": name, "user": "airflow", "name": "lakeward big", "queue": "root.default", "state": "RUNNING",
            "finalStatus": "UNDEFINED", "diagnostics": "", "applicationTags": tags,
            "amHostHttpAddress": "node-one:8042", **changed,
        }  # fmt: skip
        return name

    def answer(self, method: str, target: str, body: str) -> tuple[int, object]:
        parts = urlsplit(target)
        path = parts.path.removeprefix(ROOT)
        self.calls.append(f"{method} {path}")
        if self.standby:
            return 307, "see the other one"
        if (given := self.refusals.get(f"{method} {path}")) is not None:
            return given
        if path == "/info":
            return 200, {"clusterInfo": {"hadoopVersion": "3.4.2", "haState": "ACTIVE"}}
        if path == "/scheduler":
            below = [
                {"queueName": name.rpartition(".")[2], "queuePath": name, "state": state, "queues": None}
                for name, state in self.queues.items()
            ]
            root = {"type": "capacityScheduler", "queueName": "root", "queuePath": "root", "queues": {"queue": below}}
            return 200, {"scheduler": {"schedulerInfo": root}}
        if path == "/apps":
            tag = parse_qs(parts.query)["applicationTags"][0]
            found = [app for app in self.apps.values() if tag in app["applicationTags"].split(",")]
            return 200, {"apps": {"app": found} if found else {}}
        name = path.removeprefix("/apps/").partition("/")[0]
        if name not in self.apps:
            message = f"java.lang.Exception: app with id: {name} not found"
            return 404, {"RemoteException": {"exception": "NotFoundException", "message": message}}
        if method == "PUT":
            assert json.loads(body) == {"state": "KILLED"}
            self.killed.append(name)
            said = f"Application {name} was killed by user airflow"
            self.apps[name] |= {"state": "KILLED", "finalStatus": "KILLED", "diagnostics": said}
            return 202, {"state": "KILLED"}
        return 200, {"app": self.apps[name]}


@contextmanager
def running() -> Iterator[YarnRm]:
    """Serve on a port of loopback."""
    manager = YarnRm()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            status, body = manager.answer(self.command, self.path, self.rfile.read(length).decode())
            content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            if status == 307:
                self.send_header("Location", "http://127.0.0.1:9/ws")
            self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = _serve  # noqa: N815  # the names that the library calls

        def log_message(self, format: str, *args: object) -> None:  # the library's own name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    manager.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield manager
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
