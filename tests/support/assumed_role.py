"""STS and S3 on loopback: moto's server behind a front that ends the credentials of a role after a few seconds.

moto gives credentials for any role and takes any key. Here a role is given to one pair of keys, or to the token in one
file, and S3 takes credentials of a role alone, as long as they have not expired.
"""

from __future__ import annotations

import http.client
import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs
from uuid import uuid4

from lakeward.connectors.aws import account
from lakeward.platform import ports, private
from lakeward.platform.runtime import ObjectStore

REGION, BUCKET, ROLE = "eu-central-1", "of-the-role", "arn:aws:iam::123456789012:role/lake"
KEY, SECRET, EXTERNAL = "BASEKEY", "base-s3cret", "their-id"
TOKEN = "web-t0ken"
_LENGTHS = ("transfer-encoding", "content-length")
_OWN = ("connection", "date", "server", *_LENGTHS)


class Store(ThreadingHTTPServer):
    """The server.

    Attributes:
        secrets: the folder of connections.
        life_s: how long credentials are valid; they say so.
        given: the actions of STS that were answered, in order.
        refused: the code of each other answer, with what was refused.
        used: the keys that S3 took.
        refuses: STS's code and status for all; None: it answers.
    """

    daemon_threads = True

    def __init__(self, moto: int, secrets: Path) -> None:
        super().__init__((ports.HOST, 0), _Front)
        self.moto, self.secrets = moto, secrets
        self.life_s = 3600.0
        self.given: list[str] = []
        self.refused: list[str] = []
        self.used: set[str] = set()
        self.until: dict[str, float] = {}
        self.refuses: tuple[str, int] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{ports.HOST}:{self.server_port}"

    @property
    def token(self) -> Path:
        return self.secrets / "token"

    def by_keys(self, name: str = "by_keys") -> ObjectStore:
        """A connection with keys that assume the role."""
        return self._connect(name, {account.KEY: KEY, account.SECRET: SECRET, account.EXTERNAL_ID: EXTERNAL})

    def by_web_identity(self, name: str = "by_token") -> ObjectStore:
        """A connection with a token that assumes the role."""
        private.write(self.token, TOKEN)
        return self._connect(name, {account.WEB_TOKEN: str(self.token)})

    def _connect(self, name: str, more: dict[str, str]) -> ObjectStore:
        given = {account.ROLE: ROLE, account.REGION: REGION, account.ENDPOINT: self.endpoint, **more}
        private.write(private.folder(self.secrets / "aws") / f"{name}.ini", account.render(given))
        return ObjectStore(connection=name, connections=self.secrets)

    def refusal(self, key: str, path: str, body: bytes) -> tuple[str, int] | None:
        """S3's code and status for a request that this key does not allow."""
        if key not in self.until:
            return "InvalidAccessKeyId", 403
        return ("ExpiredToken", 400) if time.time() > self.until[key] else None

    def names(self, prefix: str) -> list[str]:
        """Every object whose path in the bucket begins with a prefix."""
        pages = _s3(self.moto).get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", [])]


def _s3(moto: int) -> Any:
    import boto3

    at = f"http://{ports.HOST}:{moto}"
    return boto3.client("s3", endpoint_url=at, region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b")


Kind = TypeVar("Kind", bound=Store)


@contextmanager
def running(folder: Path, kind: type[Kind]) -> Iterator[Kind]:
    """The server with the bucket `BUCKET`, ended whatever happens."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    moto = ports.any_free()
    behind = ThreadedMotoServer(ip_address=ports.HOST, port=moto, verbose=False)
    behind.start()
    s3 = _s3(moto)
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):  # of an earlier server: moto keeps one state for a process
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    with kind(moto, private.folder(folder / "secrets")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
            behind.stop()


class _Front(BaseHTTPRequestHandler):
    server: Store
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self._body()
        found = re.search("Credential=([^/]+)/", self.headers.get("Authorization", ""))
        key = found[1] if found else ""
        if str(self.headers.get("Content-Type")).startswith("application/x-www-form-urlencoded"):
            form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            self._give(form, key, body)
        elif refused := self.server.refusal(key, self.path, body):
            self._refuse(*refused, self.path)
        else:
            self.server.used.add(key)
            self._send(*self._moto(body))

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _body(self) -> bytes:
        """What was sent; PyArrow sends an object in chunks without a length."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while length := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def _give(self, form: dict[str, str], key: str, body: bytes) -> None:
        """Credentials of the role."""
        action, server = form["Action"], self.server
        by_keys = action == "AssumeRole" and key == KEY and form.get("ExternalId") == EXTERNAL
        by_token = action == "AssumeRoleWithWebIdentity" and not key and form.get("WebIdentityToken") == TOKEN
        if server.refuses or not (by_keys or by_token) or form["RoleArn"] != ROLE:
            self._refuse(*(server.refuses or ("AccessDenied", 403)), action)
            return
        _, text, headers = self._moto(body)
        new, until = f"ASIA{uuid4().hex[:16].upper()}", int(time.time() + server.life_s)
        stamp = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        answer = re.sub("<AccessKeyId>[^<]*", f"<AccessKeyId>{new}", text.decode())
        answer = re.sub("<Expiration>[^<]*", f"<Expiration>{stamp}", answer)
        server.until[new] = until
        server.given.append(action)
        self._send(200, answer.encode(), headers)

    def _moto(self, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        to = http.client.HTTPConnection(ports.HOST, self.server.moto)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _LENGTHS}
            to.request(self.command, self.path, body, headers)
            answer = to.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            to.close()

    def _refuse(self, code: str, status: int, what: str) -> None:
        self.server.refused.append(f"{code} {what}")
        text = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
        if what.startswith("AssumeRole"):
            text = f"<ErrorResponse>{text}<RequestId>r</RequestId></ErrorResponse>"
        self._send(status, text.encode(), {"Content-Type": "application/xml"})

    def _send(self, status: int, text: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(text))
        for name, value in headers.items():
            if name.lower() not in _OWN:
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass
