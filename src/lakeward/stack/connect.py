"""The Spark Connect server: its conf, and asking it a question with nothing but gRPC."""

from __future__ import annotations

from uuid import uuid4

CORES = 2


def server_conf(port: int, heap: str) -> dict[str, str]:
    """The server's own conf; the token comes by environment, never by conf (a UI shows conf)."""
    return {
        "spark.app.name": "lakeward-connect",
        "spark.master": f"local[{CORES}]",
        "spark.driver.memory": heap,
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "localhost",
        "spark.connect.grpc.binding.port": str(port),
        # A killed client's statement would run on for minutes: 15 s after the last sign of life it is stopped.
        "spark.connect.execute.manager.detachedTimeout": "15s",
        "spark.connect.execute.manager.maintenanceInterval": "5s",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "WARN",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true",
    }


def answers(address: str, token: str, timeout_s: float = 10) -> bool:
    """Whether the server accepts the token and runs a statement in a session.

    Args:
        address: `localhost:<port>`.
        token: what `SPARK_CONNECT_AUTHENTICATE_TOKEN` of the server says.
    """
    import grpc
    from pyspark.sql.connect import proto

    credentials = grpc.composite_channel_credentials(
        grpc.local_channel_credentials(), grpc.access_token_call_credentials(token)
    )
    user = proto.UserContext(user_id="lakeward-health")
    session = str(uuid4())
    with grpc.secure_channel(address, credentials) as channel:
        stub = proto.SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        try:
            request = proto.ExecutePlanRequest(session_id=session, user_context=user)
            request.plan.root.sql.query = "SELECT 1"
            arrived = any(answer.HasField("arrow_batch") for answer in stub.ExecutePlan(request, timeout=timeout_s))
            stub.ReleaseSession(proto.ReleaseSessionRequest(session_id=session, user_context=user), timeout=timeout_s)
        except grpc.RpcError:
            return False
    return arrived
