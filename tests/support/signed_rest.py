"""A REST catalog that takes signed requests alone, as AWS's endpoints do: a front before SeaweedFS' catalog.

It computes each signature with botocore's own signer from what arrived, and passes on, with a login of SeaweedFS, what
is signed rightly by one key for one service and region.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from object_store import KEY, SECRET, Weed

from lakeward.platform import ports

REGION, SERVICE = "eu-central-1", "glue"
_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, ?"
    r"SignedHeaders=(?P<headers>[^,]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


class Signed(ThreadingHTTPServer):
    """The server.

    Attributes:
        weed: the store with the catalog.
        taken: method and path of each request whose signature was right.
        refused: the code of each other answer.
        expired: the session token that has expired.
    """

    daemon_threads = True

    def __init__(self, weed: Weed) -> None:
        super().__init__((ports.HOST, 0), _Handler)
        self.weed, self.expired = weed, ""
        self.taken: list[str] = []
        self.refused: list[str] = []
        form = urlencode({"grant_type": "client_credentials", "client_id": KEY, "client_secret": SECRET})
        with urlopen(f"{weed.rest['uri']}/v1/oauth/tokens", form.encode()) as answer:
            self.token = json.loads(answer.read())["access_token"]

    @property
    def uri(self) -> str:
        return f"http://{ports.HOST}:{self.server_port}"

    @property
    def properties(self) -> dict[str, str]:
        """Those of the catalog, as the settings of a project give them."""
        from lakeward.spec.model.settings import LakeCatalog

        block = {"type": "rest", "uri": self.uri, "warehouse": "s3://lake", "region": REGION, "signing_name": SERVICE}
        return LakeCatalog.model_validate({**block, "properties": {"prefix": "lake"}}).iceberg()


@contextmanager
def running(weed: Weed) -> Iterator[Signed]:
    """The server, on loopback."""
    with Signed(weed) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def refusal(method: str, path: str, headers: dict[str, str], body: bytes, expired: str) -> tuple[str, str] | None:
    """AWS's code and words for a request that it would refuse; None for one that is signed rightly. Pure.

    Args:
        path: with the query, as it arrived.
        headers: by their names in lower case.
        expired: the session token that has expired.
    """
    found = _SIGNED.fullmatch(headers.get("authorization", ""))
    if found is None:
        return "MissingAuthenticationTokenException", "Missing Authentication Token"
    if found["key"] != KEY:
        return "UnrecognizedClientException", "The security token included in the request is invalid."
    if expired and headers.get("x-amz-security-token") == expired:
        return "ExpiredTokenException", "The security token included in the request is expired"
    if (found["region"], found["service"]) != (REGION, SERVICE):
        return "InvalidSignatureException", "Credential should be scoped to a valid region."
    signed = {name: headers[name] for name in found["headers"].split(";")}
    if "host" not in signed or "x-amz-date" not in signed:
        return "IncompleteSignatureException", "host and x-amz-date are to be signed"
    request = AWSRequest(method, f"http://{signed['host']}{path}", headers=signed, data=body)
    request.context["timestamp"] = signed["x-amz-date"]
    signer = _Signer(Credentials(KEY, SECRET), SERVICE, REGION)
    expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    if expected != found["signature"]:
        return "InvalidSignatureException", "The request signature we calculated does not match."
    return None


class _Signer(SigV4Auth):  # type: ignore[misc]  # botocore has no types
    def canonical_request(self, request: Any) -> str:
        """With the hash of what arrived. botocore takes the word of the header, which Iceberg writes in Base64."""
        head, _, _ = super().canonical_request(request).rpartition("\n")
        return f"{head}\n{hashlib.sha256(request.body or b'').hexdigest()}"


class _Handler(BaseHTTPRequestHandler):
    server: Signed
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if refused := refusal(self.command, self.path, headers, body, self.server.expired):
            self.server.refused.append(refused[0])
            text = json.dumps({"message": refused[1]}).encode()
            self._send(403, text, {"x-amzn-ErrorType": refused[0]})
            return
        self.server.taken.append(f"{self.command} {self.path.partition('?')[0]}")
        kept = {name: self.headers[name] for name in ("Content-Type", "Accept") if name in self.headers}
        to = f"{self.server.weed.rest['uri']}{self.path}"
        kept["Authorization"] = f"Bearer {self.server.token}"
        request = Request(to, body or None, kept, method=self.command)
        try:
            with urlopen(request) as answer:
                self._send(answer.status, answer.read(), {})
        except HTTPError as error:
            self._send(error.code, error.read(), {})

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _send(self, status: int, text: bytes, more: dict[str, str]) -> None:
        self.send_response(status)
        length = {} if status == 204 else {"Content-Length": str(len(text))}
        for name, value in {"Content-Type": "application/json", **length, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass
