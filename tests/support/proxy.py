"""A TCP proxy on loopback whose connections a test can make hang, end, or lose an answer."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Literal

Mode = Literal["pass", "hole", "reset"]


class Proxy:
    """Forwards every connection to `target` on this machine.

    Attributes:
        port: where it listens.
        target: the port that new connections are forwarded to.
        mode: `pass`; `hole`: nothing arrives, in both directions, until it passes again: then everything does, as after
            an outage of a network; `reset`: every connection ends with a TCP reset, new ones too.
        lost: answers that were lost.
    """

    def __init__(self, target: int, port: int = 0) -> None:
        """`port`: where it listens; 0: any that is free."""
        self.target = target
        self._server = socket.create_server(("127.0.0.1", port))
        self.port = int(self._server.getsockname()[1])
        self.mode: Mode = "pass"
        self.lost = 0
        self._lose: re.Pattern[bytes] | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer(self, to: bytes) -> None:
        """Let the next request in which the pattern `to` is found reach the server, and reset its connection instead of
        answering. That the server waits for the rest of it (HTTP 100) is no answer yet."""
        self._lose = re.compile(to)

    def set(self, mode: Mode) -> None:
        """From now on."""
        self.mode = mode
        if mode == "reset":
            with self._lock:
                held = list(self._open)
            for each in held:
                _reset(each)

    def close(self) -> None:
        """End it and what goes through it."""
        self.set("reset")
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            if self.mode == "reset":
                _reset(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                _reset(client)
                continue
            with self._lock:
                self._open |= {client, server}
            deaf = threading.Event()
            threading.Thread(target=self._pump, args=(client, server, deaf, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, deaf, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, deaf: threading.Event, asks: bool) -> None:
        try:
            while piece := source.recv(1 << 16):
                while self.mode == "hole":
                    time.sleep(0.05)
                if asks and self._lose is not None and self._lose.search(piece):
                    self._lose = None
                    deaf.set()
                if not asks and deaf.is_set() and not piece.startswith(b"HTTP/1.1 100 "):
                    self.lost += 1
                    _reset(sink)
                    return
                sink.sendall(piece)
        except OSError:
            pass
        finally:
            for each in (source, sink):
                with self._lock:
                    self._open.discard(each)
                with suppress(OSError):
                    each.close()


def _reset(held: socket.socket) -> None:
    """Close with a reset, not with an end: nothing that was sent counts as read."""
    with suppress(OSError):
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        held.shutdown(socket.SHUT_RD)
    with suppress(OSError):
        held.close()
