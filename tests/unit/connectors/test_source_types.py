"""Which class a source has, and what a source that cannot say something leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors import source_types
from lakeward.connectors.files.source import FilesStreamSource
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.source import KafkaStreamSource
from lakeward.connectors.plain.rate import RateStreamSource
from lakeward.connectors.source import LagProbe
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import Lake, Runtime
from lakeward.spec.model.stream import StreamSpec, long_form


def runtime(tmp_path: Path) -> Runtime:
    return Runtime(
        registry_url_file=tmp_path, lake=Lake(warehouse="/w"), kafka={"lakeward_kafka": "b:1"}, checkpoints="/c",
        drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip


def one(tmp_path: Path, source: dict[str, Any], **more: Any) -> Any:
    document = {"id": "s", "owner": "o", "source": source, "sink": {"iceberg": {"table": "n.t"}}, **more}
    [source] = source_types.of(StreamSpec.model_validate(long_form(document)), runtime(tmp_path))
    return source


def test_topics_are_measured_at_their_brokers(tmp_path: Path) -> None:
    source = one(tmp_path, {"kafka": {"topics": ["a", "b"], "max_offsets_per_trigger": 1}})
    assert isinstance(source, KafkaStreamSource)
    assert (source.reads, source.gauge("-")) == (
        frozenset({"a", "b"}),
        LagProbe(Cluster("lakeward_kafka", "b:1"), ("a", "b"), mirrored=True),
    )
    source = one(tmp_path, {"kafka": {"pattern": "a.*", "max_offsets_per_trigger": 1}})
    assert source.gauge('{"a1":{"0":3}}') == LagProbe(Cluster("lakeward_kafka", "b:1"), ("a1",), mirrored=True), (
        "what a pattern reads, the position says"
    )
    assert not source.checked


def test_files_have_no_ends_to_measure_and_are_looked_at_inside_the_batch(tmp_path: Path) -> None:
    source = one(tmp_path, {"files": {"path": f"{tmp_path}/*/x*", "format": "text", "max_files_per_trigger": 1}})
    assert isinstance(source, FilesStreamSource)
    assert (source.reads, source.gauge("-"), source.checked) == (frozenset(), None, True)
    assert source.ids() == {f"{tmp_path}/*/x*": "files"}


def test_a_folder_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    source = one(tmp_path, {"files": {"path": f"{tmp_path}/no", "format": "text", "max_files_per_trigger": 1}})
    with pytest.raises(DependencyDown, match="is not a local folder"):
        source.ids()


def test_generated_rows_have_a_place_of_their_own_in_time(tmp_path: Path) -> None:
    source = one(tmp_path, {"rate": {"rows_per_second": 10}})
    assert isinstance(source, RateStreamSource)
    assert (source.canonical("7"), source.gauge("7"), source.ids()) == ("7", None, {})


def test_a_connection_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="Kafka connection 'other' does not exist"):
        one(tmp_path, {"kafka": {"topics": ["a"], "connection": "other", "max_offsets_per_trigger": 1}})
