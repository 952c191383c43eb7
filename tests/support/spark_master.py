"""What a standalone master answers, by its REST gateway and its page, from states that a test sets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lakeward.platform.runtime import ClusterPlace

WORKER = "worker-20261129010758-node-one-37261"


class SparkMaster:
    """One master.

    Attributes:
        states: driver -> its state, in Spark's words.
        messages: driver -> what its worker reported.
        created: the requests it accepted.
        killed: the drivers it was asked to kill.
        calls: method and path of each request.
        answers: path prefix -> status and body that are sent instead.
    """

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.created: list[dict[str, Any]] = []
        self.killed: list[str] = []
        self.calls: list[str] = []
        self.answers: dict[str, tuple[int, str]] = {}
        self.version, self.status = "4.1.3", "ALIVE"
        self.port = 0

    @property
    def place(self) -> ClusterPlace:
        url = f"http://127.0.0.1:{self.port}"
        return ClusterPlace(master="spark://node-zero:7077", rest=url, ui=url)

    def answer(self, method: str, path: str, body: str) -> tuple[int, str]:
        self.calls.append(f"{method} {path}")
        for prefix, given in self.answers.items():
            if path.startswith(prefix):
                return given
        if path == "/json/":
            return 200, json.dumps(self._page())
        action, _, name = path.removeprefix("/v1/submissions/").partition("/")
        base = {"serverSparkVersion": self.version, "submissionId": name}
        if action == "create":
            self.created.append(json.loads(body))
            name = f"driver-{len(self.created):04}"
            self.states[name] = "RUNNING"
            base |= {"submissionId": name, "action": "CreateSubmissionResponse"}
            return 200, json.dumps({**base, "success": True})
        if action == "kill":
            self.killed.append(name)
            known = self.states.get(name) in ("RUNNING", "SUBMITTED")
            if known:
                self.states[name] = "KILLED"
            return 200, json.dumps({**base, "success": known, "action": "KillSubmissionResponse"})
        found = {"driverState": self.states[name]} if name in self.states else {}
        if name in self.messages:
            found["message"] = self.messages[name]
        return 200, json.dumps({**base, **found, "success": bool(found), "action": "SubmissionStatusResponse"})

    def _page(self) -> dict[str, Any]:
        rows = [
            {"id": name, "state": state, "worker": "None" if state == "SUBMITTED" else WORKER}
            for name, state in self.states.items()
        ]
        workers = [{"host": "node-one", "state": "ALIVE", "coresfree": 0, "memoryfree": 300}]
        ended = [row for row in rows if row["state"] not in ("RUNNING", "SUBMITTED")]
        active = [row for row in rows if row not in ended]
        return {"status": self.status, "workers": workers, "activedrivers": active, "completeddrivers": ended}


@contextmanager
def running() -> Iterator[SparkMaster]:
    """A master that answers on a port of loopback."""
    master = SparkMaster()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*master.answer("GET", self.path, ""))

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self._send(*master.answer("POST", self.path, self.rfile.read(length).decode()))

        def _send(self, code: int, body: str) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Nothing: a test prints no log of a server."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    master.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield master
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
