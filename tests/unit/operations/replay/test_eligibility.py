"""Which quarantines can be replayed: everything that stands in the way has its own sentence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.source import KafkaStreamSource
from lakeward.engine.flow import Flow
from lakeward.operations.replay.eligibility import NotReplayable, suited, traced
from lakeward.platform.errors import Refused
from lakeward.spec.model.stream import StreamSpec

_KAFKA = {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 1}}
_UPSERT = {"table": "a.t", "mode": "upsert", "keys": ["n"]}


def _spec(**more: Any) -> StreamSpec:
    whole = {
        "id": "s", "owner": "o", "source": _KAFKA, "decode": {"json": "n INT, v INT"}, "quarantine": {"table": "a.q"},
        "transform": {"sql": "SELECT * FROM source"}, "sink": {"iceberg": {"table": "a.t"}}, "trigger": {"every": "1s"},
    }  # fmt: skip
    asked = {**whole, **more}
    return StreamSpec.model_validate({name: value for name, value in asked.items() if value is not None})


def test_a_stream_of_one_topic_into_a_table_is_suited() -> None:
    suited(_spec())
    suited(_spec(sink={"iceberg": {**_UPSERT, "order_by": "v"}}))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"sink": {"delta": {"table": "a.t"}}}, "its sink is delta; replays support Iceberg tables only"),
        ({"sink": {"console": {}}}, "its sink is console"),
        ({"quarantine": None}, "it has no quarantine table"),
        ({"sink": {"iceberg": {"table": "a.t", "mode": "complete"}}}, "mode complete replaces all rows"),
        ({"sink": {"iceberg": _UPSERT}}, "mode upsert without order_by"),
        ({"sink": {"iceberg": {**_UPSERT, "order_by": "v", "delete_when": "n < 0"}}}, "delete_when keeps no trace"),
        ({"source": {"rate": {"rows_per_second": 1}}, "decode": None}, "a record of rate has no position"),
        (
            {"source": None, "decode": None, "sources": {"a": {**_KAFKA, "decode": {"json": "n INT"}}, "b": _KAFKA}},
            "it has several sources",
        ),
    ],
)
def test_what_is_in_the_way_is_named(more: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as refused:
        suited(_spec(**more))
    assert refused.value.why.startswith(why)


@pytest.mark.parametrize(
    ("columns", "lineage", "stateful", "why"),
    [
        (["n"], "rows", False, "its transform drops _kafka_topic, _kafka_partition, _kafka_offset"),
        (["_kafka_topic", "_kafka_partition", "_kafka_offset"], "none", False, "lineage is none"),
        (["_kafka_topic", "_kafka_partition", "_kafka_offset"], "rows", True, "it keeps state"),
        (["_kafka_topic", "_kafka_partition", "_kafka_offset"], "rows", False, None),
    ],
)
def test_each_row_must_be_known_by_its_record(
    columns: list[str], lineage: str, stateful: bool, why: str | None
) -> None:
    spec = _spec()
    shape: Any = SimpleNamespace(names=columns)
    built = Flow(spec, [KafkaStreamSource("source", spec.source, Cluster("c", "h:1"))], shape, stateful, shape, lineage)
    if why is None:
        traced(spec, built)
        return
    with pytest.raises(Refused) as refused:
        traced(spec, built)
    assert refused.value.why.startswith(why)


def test_every_reason_to_leave_a_row_has_a_sentence() -> None:
    assert all(each.text for each in NotReplayable)
