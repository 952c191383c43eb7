"""Spark Connect server: its configuration, and a health check with plain gRPC."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from lakeward.jars import archive, spark_classpath
from lakeward.jars.java import DEEP_STACK, ROOM_FOR_CLASSES
from lakeward.platform.errors import Internal

CORES = 2
MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
_LONGEST = 127  # bytes of a field whose length is one byte
_SERVICE = "/spark.connect.SparkConnectService"


def server_conf(port: int, heap: str, temporary: Path) -> dict[str, str]:
    """The Spark conf of the server. The token is passed by environment, because a UI shows the conf.

    Args:
        port: a free loopback port.
        heap: in Java's notation, e.g. `1g`.
        temporary: an existing private folder. Spark creates a folder with a fixed name in it: in a shared temporary
            folder, the second user of a machine could not end a session.
    """
    java = [
        DEEP_STACK,
        ROOM_FOR_CLASSES,
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        *archive.options(),
    ]
    return {
        "spark.app.name": "lakeward-connect",
        "spark.master": f"local[{CORES}]",
        "spark.driver.memory": heap,
        # Not spark.jars: local mode would copy 65 MB at every start, and the class archive would not match.
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in spark_classpath()),
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "localhost",
        "spark.connect.grpc.binding.port": str(port),
        # A statement of a killed client would run for minutes: it is stopped 15 s after the last sign of its client.
        "spark.connect.execute.manager.detachedTimeout": "15s",
        "spark.connect.execute.manager.maintenanceInterval": "5s",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "WARN",
        "spark.driver.extraJavaOptions": " ".join([*java, f'"-Djava.io.tmpdir={temporary}"']),
        "spark.local.dir": str(temporary),
    }


def answers(address: str, token: str, timeout_s: float = 30) -> bool:
    """Whether the server accepts the token and runs a statement in a session.

    Importing the client library takes three seconds, so the two requests are encoded here as protobuf bytes; field
    numbers of the protocol do not change.

    Args:
        address: `localhost:<port>`.
        token: the value of the server's `SPARK_CONNECT_AUTHENTICATE_TOKEN`.
    """
    import grpc

    credentials = grpc.composite_channel_credentials(
        grpc.local_channel_credentials(), grpc.access_token_call_credentials(token)
    )
    session = _field(1, str(uuid4())) + _field(2, _field(1, "lakeward-health"))  # session_id, user_context.user_id
    plan = _field(3, _field(1, _field(10, _field(1, "SELECT 1"))))  # plan.root.sql.query
    with grpc.secure_channel(address, credentials) as channel:
        try:
            replies = list(channel.unary_stream(f"{_SERVICE}/ExecutePlan")(session + plan, timeout=timeout_s))
            channel.unary_unary(f"{_SERVICE}/ReleaseSession")(session, timeout=timeout_s)
        except grpc.RpcError:
            return False
    return bool(replies)


def _field(number: int, value: str | bytes) -> bytes:
    """A length-delimited protobuf field; short values only."""
    content = value.encode() if isinstance(value, str) else value
    if len(content) > _LONGEST:
        raise Internal(
            f"Cannot encode a protobuf field of {len(content)} bytes",
            why=f"its length must fit in one byte: at most {_LONGEST}",
            code="LW-3172",
        )
    return bytes([number << 3 | 2, len(content)]) + content
