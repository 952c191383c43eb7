"""Airflow's Kafka connections as private files of the home."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from airflow_given import Given

from lakeward.airflow.connection_files import ADAPTERS
from lakeward.connectors.kafka import cluster
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Home, Lake, Runtime
from lakeward.registry.deploy import deploy
from lakeward.registry.engine import connect
from lakeward.spec.model.stream import StreamSpec

KAFKA = ADAPTERS["kafka"]
HOME = Home(Path("not read"))


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(
        registry_url_file=tmp_path / "url", lake=Lake(warehouse="/w"), kafka={"lakeward_kafka": "b:1"},
        checkpoints="/c", drivers=tmp_path, jars=tmp_path, connections=tmp_path / "secrets",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Given(extra_dejson={"bootstrap.servers": "a:9092,b:9092"}), "a:9092,b:9092"),
        (Given("broker", 9093), "broker:9093"),
        (Given("broker"), "broker:9092"),
    ],
)
def test_brokers_by_extra_or_by_host(runtime: Runtime, given: Given, expected: str) -> None:
    KAFKA.keep(runtime, HOME, ["orders"], {"orders": given}.get)
    assert cluster.find("orders", runtime).bootstrap == expected
    [file] = (runtime.connections or Path()).rglob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_nothing_of_a_connection_is_left_out(runtime: Runtime) -> None:
    KAFKA.keep(runtime, HOME, ["orders"], {"orders": Given("a", 1, "ward", "hush", "s")}.get)
    with pytest.raises(SpecError) as refused:
        cluster.find("orders", runtime)
    for word in ("schema", "sasl.username", "sasl.password"):
        assert word in refused.value.why
    assert "hush" not in str(refused.value)


def test_the_embedded_broker_needs_no_file(runtime: Runtime) -> None:
    embedded = Given(extra_dejson={"bootstrap.servers": "b:1"})
    KAFKA.keep(runtime, HOME, ["lakeward_kafka"], {"lakeward_kafka": embedded}.get)
    assert not (runtime.connections or Path()).exists()
    KAFKA.keep(runtime, HOME, ["lakeward_kafka"], {"lakeward_kafka": Given("other", 1)}.get)
    assert cluster.find("lakeward_kafka", runtime).bootstrap == "other:1"
    KAFKA.keep(runtime, HOME, ["lakeward_kafka"], {"lakeward_kafka": embedded}.get)
    assert cluster.find("lakeward_kafka", runtime).bootstrap == "b:1"


def test_what_airflow_does_not_give_stays_until_no_stream_names_it(runtime: Runtime) -> None:
    KAFKA.keep(runtime, HOME, ["orders"], {"orders": Given("a", 1)}.get)
    folder = (runtime.connections or Path()) / "airflow" / "kafka"
    login = folder / "java" / "orders.properties"
    login.parent.mkdir()
    login.touch()
    KAFKA.keep(runtime, HOME, ["orders"], {}.get)
    assert cluster.find("orders", runtime).bootstrap == "a:1", "a secrets backend that is away must stop no stream"
    KAFKA.keep(runtime, HOME, [], {}.get)
    assert cluster.names(runtime) == ["lakeward_kafka", "orders"], "its stream may just have been deployed"
    os.utime(folder / "orders.json", (0, 0))
    KAFKA.keep(runtime, HOME, ["orders"], {}.get)
    assert cluster.names(runtime) == ["lakeward_kafka", "orders"]
    KAFKA.keep(runtime, HOME, [], {}.get)
    assert cluster.names(runtime) == ["lakeward_kafka"]
    assert not login.exists(), "a password that nobody needs is not left behind"


def test_what_streams_name_is_asked_for_and_without_the_registry_what_is_known(runtime: Runtime, postgres: Any) -> None:
    url = postgres.url(registry := postgres.create_registry())
    runtime.registry_url_file.write_text(url)
    with connect(url, postgres.pgpass) as connection:
        source = {"kafka": {"connection": "orders", "topics": ["t"], "max_offsets_per_trigger": 1}}
        document = {"id": "a", "owner": "x", "sources": {"s": source}, "sink": {"iceberg": {"table": "n.a"}}}
        deploy(connection, {"a": StreamSpec.model_validate(document)}, author="ann")
    asked = runtime.model_copy(update={"pgpass": postgres.pgpass})
    assert KAFKA.named(asked) == {"lakeward_kafka", "orders"}
    postgres.drop_database(registry)
    KAFKA.keep(asked, HOME, ["other"], {"other": Given("a", 1)}.get)
    assert KAFKA.named(asked) == {"lakeward_kafka", "other"}
