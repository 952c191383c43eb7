"""A proxy before a Hive Metastore that loses answers: a table is altered, and its client is not told."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lakeward.platform import ports

ALTER = b"alter_table_with_environment_context"


class LossyMetastore(socketserver.ThreadingTCPServer):
    """Forwards every byte; the answers to the next `lose` alterations are dropped with their connections."""

    daemon_threads = True

    def __init__(self, upstream: int) -> None:
        super().__init__((ports.HOST, 0), _Handler)
        self.upstream = upstream
        self.lost = 0
        self._planned = 0
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def lose(self, count: int) -> None:
        with self._lock:
            self._planned, self.lost = count, 0

    def loses(self) -> bool:
        with self._lock:
            if self._planned == 0:
                return False
            self._planned -= 1
            self.lost += 1
            return True


class _Handler(socketserver.BaseRequestHandler):
    server: LossyMetastore

    def handle(self) -> None:
        with socket.create_connection((ports.HOST, self.server.upstream)) as server:
            lost = threading.Event()
            back = threading.Thread(target=_pump, args=(server, self.request, lost), daemon=True)
            back.start()
            with suppress(OSError):
                while data := self.request.recv(65536):
                    if ALTER in data and self.server.loses():
                        lost.set()
                    server.sendall(data)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            back.join(10)


def _pump(source: socket.socket, sink: socket.socket, lost: threading.Event) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            if lost.is_set():
                break
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


@contextmanager
def running(upstream: int) -> Iterator[LossyMetastore]:
    """A proxy on a free port, ended whatever happens."""
    with LossyMetastore(upstream) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join(10)
