"""AWS Glue on loopback: moto's server with its S3, behind a front that compares versions and loses answers.

moto takes an UpdateTable whatever its VersionId is: here another version than the newest is a conflict, as AWS
documents. And it takes any key: a test says what is refused. So the clients are tested, and not AWS.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from lakeward.connectors.aws import account
from lakeward.platform import ports, private
from lakeward.platform.runtime import Lake, ObjectStore

REGION, CONNECTION, BUCKET = "eu-central-1", "lakeward_aws", "lake"
KEY, SECRET = "GLUEKEY", "glue-s3cret"
_CONFLICT = "ConcurrentModificationException"


@dataclass
class Glue:
    """A running catalog.

    Attributes:
        port: of Glue, in front of moto.
        moto: the address of moto, with S3.
        secrets: the folder of connections.
        requests: the operations, in order, with the parameters.
        answer: (operation, parameters) -> status and error code instead of an answer; None: moto answers.
        compares: whether a change of a table must name its newest version.
        conflicts: changes that named another version.
        lost: answers that were lost since `lose`.
    """

    port: int
    moto: str
    secrets: Path
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answer: Callable[[str, dict[str, Any]], tuple[int, str, str] | None] = lambda operation, given: None
    compares: bool = True
    conflicts: int = 0
    lost: int = 0
    _planned: int = 0

    def lose(self, answers: int) -> None:
        """Lose the answers to the next changes of tables: each is done, and its connection ends."""
        self._planned, self.lost = answers, 0

    def loses(self, operation: str) -> bool:
        """Whether this answer is one of them."""
        if operation != "UpdateTable" or not self._planned:
            return False
        self._planned, self.lost = self._planned - 1, self.lost + 1
        return True

    def connect(self, key: str = KEY, secret: str = SECRET, **more: str) -> ObjectStore:
        """Write the connection."""
        given = {account.KEY: key, account.SECRET: secret, account.REGION: REGION, account.ENDPOINT: self.moto, **more}
        private.write(private.folder(self.secrets / "aws") / f"{CONNECTION}.ini", account.render(given))
        return ObjectStore(connection=CONNECTION, connections=self.secrets)

    @property
    def lake(self) -> Lake:
        """The catalog, as the settings of a project give it."""
        from lakeward.spec.model.settings import LakeCatalog

        uri, place = f"http://{ports.HOST}:{self.port}", f"s3://{BUCKET}/warehouse"
        block = LakeCatalog.model_validate({"type": "glue", "uri": uri, "warehouse": place, "region": REGION})
        return Lake(warehouse="/nowhere", properties=block.iceberg(), store=self.connect())


def no_keys(patch: pytest.MonkeyPatch) -> None:
    """This machine has no identity at AWS."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        patch.delenv(name, raising=False)
    nowhere = dict.fromkeys(("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"), "/nowhere")
    for name, value in {"AWS_EC2_METADATA_DISABLED": "true", **nowhere}.items():
        patch.setenv(name, value)


@contextmanager
def running(folder: Path) -> Iterator[Glue]:
    """A catalog of its own, with the bucket `lake`."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    port = ports.any_free()
    server = ThreadedMotoServer(ip_address=ports.HOST, port=port, verbose=False)
    server.start()
    moto = f"http://{ports.HOST}:{port}"
    s3 = boto3.client("s3", endpoint_url=moto, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=SECRET)
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    with ThreadingHTTPServer((ports.HOST, 0), _Front) as front:
        made = _Front.rig = Glue(front.server_port, moto, private.folder(folder / "secrets"))
        made.connect()
        threading.Thread(target=front.serve_forever, daemon=True).start()
        try:
            yield made
        finally:
            front.shutdown()
            server.stop()


class _Front(BaseHTTPRequestHandler):
    """Glue's API in front of moto."""

    rig: Glue
    one = threading.Lock()
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        given = json.loads(body)
        self.rig.requests.append((operation, given))
        refused = self.rig.answer(operation, given)
        with self.one:
            status, text = _error(*refused) if refused else self._moto(operation, given, body)
        if self.rig.loses(operation):
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _moto(self, operation: str, given: dict[str, Any], body: bytes) -> tuple[int, bytes]:
        if operation == "UpdateTable" and "VersionId" in given and self.rig.compares:
            name = {"DatabaseName": given["DatabaseName"], "Name": given["TableInput"]["Name"]}
            status, found = self._forward("GetTable", json.dumps(name).encode())
            if status == 200 and json.loads(found)["Table"]["VersionId"] != given["VersionId"]:
                self.rig.conflicts += 1
                return _error(400, _CONFLICT, "Update table failed due to concurrent modifications.")
        return self._forward(operation, body)

    def _forward(self, operation: str, body: bytes) -> tuple[int, bytes]:
        kept = {name: self.headers[name] for name in ("Authorization", "X-Amz-Date") if name in self.headers}
        headers = {**kept, "X-Amz-Target": f"AWSGlue.{operation}", "Content-Type": "application/x-amz-json-1.1"}
        try:
            with urlopen(Request(self.rig.moto, body, headers)) as answer:
                return answer.status, answer.read()
        except HTTPError as refused:
            return refused.code, refused.read()

    def log_message(self, *_: Any) -> None:
        pass


def _error(status: int, code: str, message: str) -> tuple[int, bytes]:
    return status, json.dumps({"__type": code, "message": message, "Message": message}).encode()
