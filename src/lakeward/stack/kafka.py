"""Embedded Kafka: one KRaft node, run from jars on loopback."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeward import jars
from lakeward.platform import ports
from lakeward.platform.errors import DependencyDown, LakewardError, TimedOut
from lakeward.stack import service_user

LOGGING = Path(__file__).with_name("kafka-log4j2.properties")
HEAP = "384m"
LARGEST_RECORD_BYTES = 16 * 1024 * 1024  # fault tests use records of 5 MB


@dataclass(frozen=True)
class Kafka:
    """One node that is broker and controller.

    Attributes:
        folder: has the configuration and the log segments.
        port: the client port.
        controller_port: the port of the controller.
    """

    folder: Path
    port: int
    controller_port: int

    @property
    def bootstrap(self) -> str:
        return f"{ports.HOST}:{self.port}"

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    def initialise(self, java: jars.Java) -> None:
        """Write the configuration, and format the log folder if needed.

        Raises:
            LakewardError: formatting failed.
        """
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        self.config.write_text("".join(f"{key}={value}\n" for key, value in self._settings(data).items()))
        if (data / "meta.properties").exists():
            return
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [*self._java(java, heap="64m"), "kafka.tools.StorageTool", "format"]
        command += [f"--cluster-id={cluster}", "--config", str(self.config), "--ignore-formatted"]  # may begin with -
        done = subprocess.run(service_user.bound(command), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LakewardError(
                "Kafka's log folder could not be formatted", why=(done.stderr or done.stdout).strip(), code="LW-7008"
            )

    def command(self, java: jars.Java) -> list[str]:
        """The command of the broker, which runs in the foreground; SIGTERM stops it."""
        return [*self._java(java, heap=HEAP), "kafka.Kafka", str(self.config)]

    def ready(self) -> bool:
        """Whether the broker answers a metadata request."""
        return ports.answers(self.port) and _answers_metadata(self.bootstrap)

    def wait(self, timeout_s: float = 60) -> None:
        """Wait until the broker answers.

        Raises:
            TimedOut: it did not within `timeout_s`.
        """
        end = time.monotonic() + timeout_s
        while not self.ready():
            if time.monotonic() > end:
                raise TimedOut(
                    f"Kafka on {self.bootstrap} does not answer", why=f"waited {timeout_s:.0f} s", code="LW-7010"
                )
            time.sleep(0.1)

    def _java(self, java: jars.Java, heap: str) -> list[str]:
        classpath = os.pathsep.join(str(jar) for jar in jars.kafka_classpath())
        return [
            str(java.binary), f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            # The C1 compiler only: half the CPU of a start (4.5 s -> 2.6 s). The node is never the bottleneck.
            "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={LOGGING.as_uri()}", "-cp", classpath,
        ]  # fmt: skip

    def _settings(self, data: Path) -> dict[str, object]:
        controller = f"{ports.HOST}:{self.controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": data,
            "num.partitions": 3,
            # With automatic creation a misspelled topic would look like a stream without data.
            "auto.create.topics.enable": "false",
            "message.max.bytes": LARGEST_RECORD_BYTES,
            "group.initial.rebalance.delay.ms": 0,
            # One node: internal topics cannot have three replicas.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            # The default takes a third of the heap.
            "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        }


def create_topic(bootstrap: str, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> bool:
    """Create a topic and wait until it can be used; False if it existed.

    Raises:
        DependencyDown: the broker did not answer.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient(_quiet(bootstrap))
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
    try:
        admin.create_topics([topic], operation_timeout=30)[name].result(timeout=40)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise DependencyDown(
            f"The topic {name} could not be created",
            why=f"{bootstrap}: {error.args[0].str()}",
            next="lakeward doctor",
            code="LW-7009",
        ) from None
    end = time.monotonic() + 30
    while time.monotonic() < end:
        known = admin.list_topics(name, timeout=10).topics[name]
        if known.error is None and len(known.partitions) == partitions:
            return True
        time.sleep(0.05)
    raise DependencyDown(
        f"The topic {name} has no leader", why=f"{bootstrap}: waited 30 s", next="lakeward doctor", code="LW-7007"
    )


def _quiet(bootstrap: str) -> dict[str, Any]:
    # librdkafka logs every refused connection on stderr, which is expected while a broker starts.
    return {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda error: None, "socket.timeout.ms": 3000}


def _answers_metadata(bootstrap: str) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        return bool(AdminClient(_quiet(bootstrap)).list_topics(timeout=3).brokers)
    except KafkaException:
        return False
