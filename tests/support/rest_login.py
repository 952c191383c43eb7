"""A REST catalog behind a login, for tests: it has one namespace, `n`."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any, ClassVar

BASIC = "Basic " + base64.b64encode(b"u:p").decode()


class Login(BaseHTTPRequestHandler):
    """A catalog behind OAuth2: it accepts the newest token, or a user with a password, and records what it was asked.

    Attributes:
        secret: the client's secret.
        error: OAuth2's word for another secret.
        overrides: of the configuration.
        issued, accepted: the number of the newest token, and of the one that is accepted.
        status: of the answer to another token.
        forbidden: whether listing is forbidden.
        life_s: life of tokens; None: not said.
        form: the newest login.
        requests: the last part of each address, in order; `login` for one of logins.
    """

    secret: ClassVar[str] = "s"
    error: ClassVar[str] = "invalid_client"
    overrides: ClassVar[dict[str, str]] = {}
    issued: ClassVar[int] = 0
    life_s: ClassVar[float | None] = None
    form: ClassVar[str] = ""
    accepted: ClassVar[int] = 0
    status: ClassVar[int] = 401
    forbidden: ClassVar[bool] = False
    requests: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        cls = type(self)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if not self.path.endswith("/oauth/tokens"):
            self._protected()
            return
        cls.requests.append("login")
        cls.form = body
        if f"client_secret={cls.secret}" not in body:
            self._say(400, {"error": cls.error, "error_description": "no such secret"})
            return
        cls.issued += 1
        cls.accepted = cls.issued
        life = {} if cls.life_s is None else {"expires_in": cls.life_s}
        self._say(200, {"access_token": f"t{cls.issued}", "token_type": "bearer", **life})

    def do_GET(self) -> None:
        self._protected()

    def _protected(self) -> None:
        cls = type(self)
        cls.requests.append(self.path.partition("?")[0].rpartition("/")[2])
        if self.headers.get("Authorization") not in (f"Bearer t{cls.accepted}", BASIC):
            self._say(cls.status, {"error": {"message": "who are you", "type": "t", "code": cls.status}})
        elif cls.forbidden:
            self._say(403, {"error": {"message": "no LIST on n", "type": "t", "code": 403}})
        else:
            self._say(200, {"defaults": {}, "overrides": cls.overrides, "namespaces": [["n"]]})

    def _say(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running() -> Iterator[HTTPServer]:
    """The server, in its first state."""
    Login.secret, Login.issued, Login.accepted, Login.status, Login.forbidden = "s", 0, 0, 401, False
    Login.requests, Login.life_s, Login.error, Login.overrides = [], None, "invalid_client", {}
    with ThreadingHTTPServer(("127.0.0.1", 0), Login) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        try:
            yield made
        finally:
            made.shutdown()
