"""Spark's producer, which outlives batches and queries, finds a broker that moved to another address."""

from __future__ import annotations

import time
from typing import Any

import pytest
import replaced_broker

from lakeward.connectors.kafka import sink
from lakeward.spec.model.sinks import KafkaSink


@pytest.mark.campaign
def test_rows_are_sent_to_a_broker_that_moved(spark: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.protocol import Py4JJavaError

    # A batch whose broker is gone fails after this time, and is begun again.
    brief = {"kafka.delivery.timeout.ms": "20000", "kafka.request.timeout.ms": "10000"}
    monkeypatch.setattr(sink, "DURABLE", {**sink.DURABLE, **brief})
    rows, to = spark.range(3).selectExpr("id"), KafkaSink(topic="moved")
    with replaced_broker.running(tmp_path) as one:
        one.service.create_topic("moved")
        sink.write(rows, to, one.service.cluster)
        one.replace(same_port=False)
        one.service.create_topic("moved")
        end = time.monotonic() + 90
        while True:
            try:
                sink.write(rows, to, one.service.cluster)
                break
            except Py4JJavaError:
                assert time.monotonic() < end, "the producer does not find its broker"
        assert len(one.service.sent("moved")) >= 3
