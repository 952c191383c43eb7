"""A proxy before a REST catalog that spoils answers: a commit is done, and its client is told otherwise."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lakeward.platform import ports

COMMIT = re.compile(r"/namespaces/[^/]+/tables/[^/?]+$")
STATUSES = {
    "409": "CommitFailedException",
    "500": "InternalServerError",
    "502": "BadGateway",
    "503": "ServiceUnavailable",
    "504": "GatewayTimeout",
}
FAULTS = (*STATUSES, "closed", "slow")


class LossyCatalog(ThreadingHTTPServer):
    """Forwards every request; `spoil` plans what becomes of the answers to the next commits.

    Attributes:
        done: the faults of the plan that were made.
        keys: the `Idempotency-Key` of each commit; None without one.
    """

    daemon_threads = True

    def __init__(self, upstream: int) -> None:
        super().__init__((ports.HOST, 0), _Handler)
        self.upstream = upstream
        self.done: list[str] = []
        self.keys: list[str | None] = []
        self._plan: list[str] = []
        self._lock = threading.Lock()

    def spoil(self, *faults: str) -> None:
        """One entry for each of the next commits: a fault, or empty for a good answer."""
        with self._lock:
            self._plan, self.done = list(faults), []

    def fault(self) -> str:
        with self._lock:
            next_one = self._plan.pop(0) if self._plan else ""
            if next_one:
                self.done.append(next_one)
            return next_one


class _Handler(BaseHTTPRequestHandler):
    server: LossyCatalog
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        link = HTTPConnection(ports.HOST, self.server.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        link.request(self.command, self.path, body, headers)
        answer = link.getresponse()
        status, kind, content = answer.status, answer.headers.get("Content-Type", "application/json"), answer.read()
        link.close()
        commit = self.command == "POST" and COMMIT.search(self.path)
        fault = self.server.fault() if commit else ""
        if commit:
            self.server.keys.append(self.headers.get("Idempotency-Key"))
        if fault == "closed":
            self.close_connection = True
            return
        if fault == "slow":
            time.sleep(2)  # the fault itself
        elif fault:
            status = int(fault)
            error = {"message": "spoiled by the test", "type": STATUSES[fault], "code": status}
            content = json.dumps({"error": error}).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = _forward  # noqa: N815  # names of http.server

    def log_message(self, format: str, *args: object) -> None:  # the base class names it
        pass


@contextmanager
def running(upstream: int) -> Iterator[LossyCatalog]:
    """A proxy on a free port, ended whatever happens."""
    with LossyCatalog(upstream) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join(10)
