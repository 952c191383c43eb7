"""Where the brokers of a connection are looked for, and what is said where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.connectors.kafka import cluster
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.platform import private
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Lake, Runtime


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(
        registry_url_file=tmp_path, lake=Lake(warehouse="/w"), kafka={"lakeward_kafka": "b:1"}, checkpoints="/c",
        drivers=tmp_path, jars=tmp_path, connections=tmp_path,
    )  # fmt: skip


def put(runtime: Runtime, name: str, text: str) -> Path:
    assert runtime.connections is not None
    file = runtime.connections / name
    return private.write(private.folder(file.parent) / file.name, text)


def test_airflows_word_counts_before_a_file_and_a_file_before_the_stacks_own(runtime: Runtime) -> None:
    assert cluster.find("lakeward_kafka", runtime) == Cluster("lakeward_kafka", "b:1")
    put(runtime, "kafka/lakeward_kafka.properties", "# mine\n\nbootstrap.servers = own:1,own:2\n")
    assert cluster.find("lakeward_kafka", runtime).bootstrap == "own:1,own:2"
    put(runtime, "airflow/kafka/lakeward_kafka.json", '{"bootstrap.servers": "airflow:1"}')
    put(runtime, "airflow/kafka/orders.json", '{"bootstrap.servers": "orders:1"}')
    assert cluster.find("lakeward_kafka", runtime).bootstrap == "airflow:1"
    assert cluster.names(runtime) == ["lakeward_kafka", "orders"]


def test_a_connection_nobody_knows_is_named_with_those_there_are_and_where_to_make_it(runtime: Runtime) -> None:
    with pytest.raises(SpecError) as refused:
        cluster.find("orders", runtime)
    assert "'orders'" in refused.value.what
    assert refused.value.why == "known connections: lakeward_kafka"
    assert f"{runtime.connections}/kafka/orders.properties" in refused.value.next
    nowhere = runtime.model_copy(update={"connections": None, "kafka": {}})
    with pytest.raises(SpecError, match="known connections: none"):
        cluster.find("orders", nowhere)


def test_what_is_wrong_names_the_file_and_never_the_secret(runtime: Runtime) -> None:
    file = put(runtime, "kafka/orders.properties", "bootstrap.servers=a:1\nsasl.password hush\nbootstrap.servers=b:1\n")
    with pytest.raises(SpecError, match=r"line 2 is not key=value; line 3 repeats bootstrap.servers") as refused:
        cluster.find("orders", runtime)
    assert str(file) in str(refused.value)
    assert "hush" not in str(refused.value)
    put(runtime, "airflow/kafka/orders.json", '{"bootstrap.servers": "a:1", "group.id": "g"}')
    with pytest.raises(SpecError, match=r"Airflow connection orders: group\.id is not supported"):
        cluster.find("orders", runtime)


def test_a_file_that_others_can_read_is_refused(runtime: Runtime) -> None:
    file = put(runtime, "kafka/orders.properties", "bootstrap.servers=a:1\n")
    file.chmod(0o640)
    with pytest.raises(SpecError, match=f"chmod 600 {file}"):
        cluster.find("orders", runtime)
