"""An S3 store on loopback that ignores the conditions of a request, as older ones do. Its objects are in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lakeward.platform import ports

_EMPTY = b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"


class Store(ThreadingHTTPServer):
    """Attributes:
    objects: path -> the headers of its user metadata.
    conditions: PUT requests that had If-None-Match.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((ports.HOST, 0), _Handler)
        self.objects: dict[str, dict[str, str]] = {}
        self.conditions = 0


class _Handler(BaseHTTPRequestHandler):
    server: Store
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        if self.headers.get("Expect") == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.conditions += "If-None-Match" in self.headers
        own = {name: value for name, value in self.headers.items() if name.lower().startswith("x-amz-meta-")}
        self.server.objects[self.path] = own
        self._answer(200, {"ETag": '"1"'})

    def do_HEAD(self) -> None:
        found = self.server.objects.get(self.path)
        if found is None:
            self._answer(404)
        else:
            self._answer(200, {**found, "ETag": '"1"', "Last-Modified": formatdate(usegmt=True)})

    def do_DELETE(self) -> None:
        self.server.objects.pop(self.path, None)
        self._answer(204)

    def do_GET(self) -> None:
        self._answer(200, {"Content-Type": "application/xml"}, _EMPTY)

    def _answer(self, status: int, headers: dict[str, str] | None = None, content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # the base class names it
        pass


@contextmanager
def running() -> Iterator[Store]:
    """A store on a free port, ended whatever happens."""
    with Store() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join(10)
