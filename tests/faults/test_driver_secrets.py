"""Kafka behind SASL_SSL and access control: streams land through it, refusals have names, and no password leaks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer
from secure_kafka import PLAIN_PASSWORD, PLAIN_USER, Guard
from sqlalchemy import MetaData, func, select

from lakeward.connectors.kafka import broker
from lakeward.connectors.kafka.cluster import find
from lakeward.platform import private
from lakeward.platform.errors import DependencyDown, Refused, SpecError
from lakeward.registry import generations
from lakeward.spec.model.sources import KafkaSource
from lakeward.spec.model.stream import StreamSpec
from lakeward.stack.kafka import create_topic
from lakeward.supervision.report.sources import measure

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

PASSWORD, WRONG = 'ward-s3cret "\\é$} #!;', "wr0ng-s3cret"
"""The first with everything that JAAS, Java's properties and Kafka's variables give a meaning to."""
CORES = (b"ward-s3cret", WRONG.encode(), PLAIN_PASSWORD.encode())


@pytest.fixture
def guard(secure_kafka: Guard) -> Guard:
    secure_kafka.user("ward", PASSWORD)
    return secure_kafka


@pytest.fixture
def connect(world: Any, guard: Guard, tmp_path: Path) -> Callable[..., Any]:
    """Writes a connection of the home; gives its cluster."""
    folder = private.folder(tmp_path / "secrets")
    world.runtime = world.runtime.model_copy(update={"connections": folder})

    def write(name: str, **more: str) -> Any:
        given = {
            "bootstrap.servers": guard.broker.secure_bootstrap, "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "ward", "sasl.password": PASSWORD,
            "ssl.ca.location": str(guard.broker.ca), **{key.replace("_", "."): value for key, value in more.items()},
        }  # fmt: skip
        text = "".join(f"{key}={value}\n" for key, value in given.items() if value)
        private.write(private.folder(folder / "kafka") / f"{name}.properties", text)
        return find(name, world.runtime)

    return write


def reads(*topics: str) -> KafkaSource:
    return KafkaSource(topics=topics, max_offsets_per_trigger=1)


def test_a_refused_user_authority_or_topic_is_named_with_what_helps(guard: Guard, connect: Callable[..., Any]) -> None:
    for topic in ("open", "seen", "shut"):
        create_topic(guard.broker.bootstrap, topic)
    guard.allow("ward", "open", "READ", "DESCRIBE")
    guard.allow("ward", "seen", "DESCRIBE")
    orders = connect("orders")
    assert list(broker.topic_ids(orders, reads("open"))) == ["open"]
    with pytest.raises(SpecError, match="does not allow User:ward to read topic seen") as seen:
        broker.topic_ids(orders, reads("open", "seen"))
    assert "operation Read is not granted" in seen.value.why
    assert "--allow-principal User:ward --topic seen --operation Read --operation Describe" in seen.value.next
    with pytest.raises(SpecError, match="User:ward to read topic shut") as shut:
        broker.topic_ids(orders, reads("shut"))
    assert "operation Describe is not granted" in shut.value.why
    with pytest.raises(SpecError, match="does not allow User:ward to write topic open"):
        broker.check_writable(orders, "open")
    with pytest.raises(SpecError, match="refused the login of User:ward") as wrong:
        broker.topic_ids(connect("stale", sasl_password=WRONG), reads("open"))
    assert "connection stale, sasl.mechanism SCRAM-SHA-256" in wrong.value.why
    assert "stale.properties" in wrong.value.next
    assert broker.topic_ids(connect("stale"), reads("open")), "a corrected file counts at once"
    with pytest.raises(DependencyDown, match="The TLS handshake with Kafka failed") as unknown:
        broker.topic_ids(connect("strangers", ssl_ca_location=""), reads("open"))
    assert "connection strangers, ssl.ca.location of the machine" in unknown.value.why
    for error in (seen, shut, wrong, unknown):
        assert not any(core in str(error.value).encode() for core in CORES)


def test_a_login_that_may_not_set_group_offsets_is_named_with_what_helps(
    world: Any, guard: Guard, connect: Callable[..., Any]
) -> None:
    create_topic(guard.broker.bootstrap, "grouped")
    guard.allow("ward", "grouped", "READ", "DESCRIBE")
    orders = connect("orders")
    with pytest.raises(Refused, match="does not allow User:ward to set the offsets of consumer group") as no:
        broker.set_group_offsets(orders, "lakeward.s", {"grouped": {0: 3}})
    assert "--allow-principal User:ward --group lakeward.s --operation Read" in no.value.next
    guard.allow_groups("ward", "lakeward.")

    def is_set() -> bool:
        with suppress(DependencyDown):  # the first group of a broker: its coordinator is being made
            return broker.set_group_offsets(orders, "lakeward.s", {"grouped": {0: 3}}) == []
        return False

    world.wait_for("the offsets", is_set)


def test_streams_land_through_sasl_ssl_and_no_password_is_anywhere(
    world: Any, simple: Callable[..., Any], guard: Guard, connect: Callable[..., Any]
) -> None:
    plain, name = guard.broker.bootstrap, world.name
    for topic in ("in", "copies", "closed", "mute"):
        create_topic(plain, f"{name}-{topic}", 2)
    guard.allow("ward", f"{name}-in", "READ", "DESCRIBE")
    guard.allow(PLAIN_USER, f"{name}-copies", "WRITE", "DESCRIBE")
    guard.allow(PLAIN_USER, f"{name}-mute", "DESCRIBE")
    connect("orders")
    connect("stale", sasl_password=WRONG)
    connect("sender", sasl_mechanism="PLAIN", sasl_username=PLAIN_USER, sasl_password=PLAIN_PASSWORD)

    def deploy(stream: str, topic: str = "in", connection: str = "orders", **more: Any) -> str:
        document = simple(f"{name}_{stream}", f"{name}-{topic}", f"{name}.{stream}", **more)
        document["source"]["kafka"]["connection"] = connection
        return str(world.deploy(document))

    def copies(topic: str) -> dict[str, Any]:
        return {"sink": {"kafka": {"topic": f"{name}-{topic}", "connection": "sender", "value": "n"}}}

    lands, mirror = deploy("lands"), deploy("mirror", **copies("copies"))
    refused = {
        deploy("stale", connection="stale"): "refused the login of User:ward",
        deploy("closed", "closed"): f"does not allow User:ward to read topic {name}-closed",
        deploy("mute", **copies("mute")): f"does not allow User:sender to write topic {name}-mute",
        deploy("nobody", connection="nobody"): "Kafka connection 'nobody' does not exist",
    }
    world.kafka = guard.broker
    world.numbers(f"{name}-in", range(40))
    driver = world.launch(conf={"spark.eventLog.compress": "false"})
    table = f"{name}.lands"
    world.wait_landed(table, lands, 40)
    for stream, words in refused.items():
        blocked = world.wait_for(f"the block of {stream}", lambda stream=stream: world.stream(stream).blocked)
        assert words in blocked["what"], blocked
        assert world.observation(stream).error["class"] == "config"
    world.desire(lands, "stopped")
    world.wait_for("its stop", lambda: world.observation(lands).query_state == "stopped")
    world.numbers(f"{name}-in", range(40, 60))
    world.desire(lands, "running")
    world.wait_landed(table, lands, 60)
    assert sorted(row["n"] for row in world.rows(table)) == list(range(60))
    world.wait_for("no lag", lambda: world.observation(lands).lag_records == 0)
    with world.connect() as connection:
        spec = StreamSpec.model_validate(generations.get(connection, lands, 1).spec)
    lag, silent = measure(world.runtime, spec, world.position(table, lands)["end"])
    assert lag is not None and silent == []
    assert (lag.records, sum(part.end for part in lag.partitions)) == (0, 60)
    assert world.wait_for("the copies", lambda: len(read(plain, f"{name}-copies")) >= 60)
    assert sorted(read(plain, f"{name}-copies")) == list(range(60)), "nothing was restarted: none is there twice"
    assert world.observation(mirror).error is None
    said = [" ".join(each.cmdline()) for each in (psutil.Process(driver.pid), driver.jvm())]
    assert driver.terminate() == 0
    files = [each for each in world.folder.rglob("*") if each.is_file() and "secrets" not in each.parts]
    names = {each.name for each in files}
    assert {"driver.log", "spark.log", "launch.json", "metadata"} <= names
    environment = next(each for each in files if each.name.startswith("events_")).read_bytes()
    assert b"SparkListenerEnvironmentUpdate" in environment
    assert b"FileConfigProvider" in b"".join(each.read_bytes() for each in files), "the search would find options"
    for where, text in [*((each, each.read_bytes()) for each in files), ("argv", "".join(said).encode()),
                        ("registry", dump(world))]:  # fmt: skip
        assert not any(core in text for core in CORES), where


def read(bootstrap: str, topic: str) -> list[int]:
    """What a topic holds, as numbers."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "t", "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "enable.partition.eof": True})  # fmt: skip
    found, ended = [], 0
    consumer.subscribe([topic])
    try:
        while ended < 2:
            for message in consumer.consume(100, timeout=0.5):
                if message.error() is not None:
                    ended += 1
                else:
                    found.append(int(message.value()))
    finally:
        consumer.close()
    return found


def dump(world: Any) -> bytes:
    """Every row of every table of the registry."""
    known = MetaData()
    with world.connect() as connection:
        known.reflect(connection)
        rows = [
            str(row[0])
            for table in known.tables.values()
            for row in connection.execute(select(func.to_jsonb(table.table_valued())).select_from(table))
        ]
    assert any("User:ward" in row for row in rows), "the search would find what the registry holds"
    return "\n".join(rows).encode()
