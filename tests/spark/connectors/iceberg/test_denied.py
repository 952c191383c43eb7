"""What Spark's REST catalog is refused is a dependency that is down, in words, and no failure of the batch."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from lakeward.connectors.iceberg import jvm
from lakeward.platform.errors import DependencyDown
from lakeward.platform.failures import FailureClass, classify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Refusing(BaseHTTPRequestHandler):
    """Answers its configuration, and `status` to everything else."""

    status: ClassVar[int] = 401

    def do_GET(self) -> None:
        status = 200 if self.path.startswith("/v1/config") else type(self).status
        error = {"error": {"message": "not you", "type": "Denied", "code": status}}
        text = json.dumps({"defaults": {}, "overrides": {}} if status == 200 else error).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def refused(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose catalog `lake` is that server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        session = spark.newSession()
        conf = {"catalog-impl": "org.apache.iceberg.rest.RESTCatalog", "token": "t",
                "uri": f"http://127.0.0.1:{server.server_port}"}  # fmt: skip
        for key, value in conf.items():
            session.conf.set(f"spark.sql.catalog.lake.{key}", value)
        session.sql("USE lake")
        yield session
        server.shutdown()


@pytest.mark.parametrize("status", [401, 403, 419])
def test_a_refusal_is_a_dependency_with_words(refused: SparkSession, status: int) -> None:
    Refusing.status = status
    with pytest.raises(DependencyDown, match=r"refuses the login, or a privilege for table n\.t") as down:
        jvm.load(refused, "n.t")
    assert "not you" in down.value.why
    assert classify(error=down.value) is FailureClass.DEPENDENCY


@pytest.mark.parametrize("status", [401, 403, 419])
def test_the_text_of_a_failed_query_says_dependency(refused: SparkSession, status: int) -> None:
    Refusing.status = status
    with pytest.raises(Exception, match="not you") as failed:
        refused.table("lake.n.t").collect()
    origin: Any = getattr(failed.value, "_origin", None) or getattr(failed.value, "java_exception", None)
    text = "\n".join(str(each) for each in (failed.value, origin.toString()))
    assert classify(text=text) is FailureClass.DEPENDENCY
