"""A stream whose checkpoint is gone goes on where its table's position ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection

from lakeward.control.recover import recover
from lakeward.errors import Blocked, Refused
from lakeward.registry import generations, streams
from lakeward.registry.engine import connect, migrate
from lakeward.spec.stream import StreamSpec

Registry = Callable[[], AbstractContextManager[Connection]]


@pytest.fixture
def registry(postgres: Any, database: str) -> Registry:
    url = postgres.url(database)
    migrate(url, postgres.pgpass)
    return lambda: connect(url, postgres.pgpass)


def _deployed(registry: Registry, document: dict[str, Any], checkpoint: str) -> None:
    with registry() as connection:
        streams.accept(connection, document["id"], generation=1, driver="d")
        generations.add(
            connection, stream=document["id"], generation=1, spec=StreamSpec.model_validate(document).document(),
            digest="d", sql=None, code={}, versions={}, author="ann", checkpoint=checkpoint,
        )  # fmt: skip


def _add_partition(lab: Any, topic: str, count: int) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": lab.kafka.bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)


def test_it_goes_on_at_the_position_with_partitions_that_came_meanwhile(lab: Any, registry: Registry) -> None:
    topic = lab.topic()
    document = {**lab.spec(topic), "lineage": "rows"}
    lab.produce(topic, [{"n": n, "s": "a"} for n in range(5)])
    lab.run(document, 5)
    wanted = lab.wanted(document)
    shutil.rmtree(wanted.checkpoint)
    with pytest.raises(Blocked, match="lakeward streams recover"):
        lab.starter().start(wanted)
    _add_partition(lab, topic, 2)
    lab.produce(topic, [{"n": n, "s": "b"} for n in range(5, 8)])
    _deployed(registry, document, wanted.checkpoint)

    planned = recover(registry, lab.runtime, document["id"], author="ann", dry_run=True)
    done = recover(registry, lab.runtime, document["id"], author="ann")

    assert done == planned
    with registry() as connection:
        kept = generations.get(connection, document["id"], streams.get(connection, document["id"]).generation)
    assert kept is not None
    assert (kept.generation, kept.checkpoint) == (2, done.checkpoint)
    running = lab.starter().start(replace(wanted, generation=2, checkpoint=done.checkpoint))
    lab.started.append(running)
    lab.until("the rest", lambda: len(lab.rows()) >= 8)
    assert running.stop(60)
    assert sorted(row["_kafka_offset"] for row in lab.rows()) == list(range(8))
    assert lab.done[-1].outcome.seq == done.seq + 1


def test_a_stream_that_is_to_run_or_never_landed_is_not_recovered(lab: Any, registry: Registry) -> None:
    topic = lab.topic()
    document = {**lab.spec(topic), "lineage": "rows"}
    _deployed(registry, document, "c")
    with registry() as connection:
        streams.set_desired(connection, [document["id"]], "running")
    with pytest.raises(Refused, match="streams stop"):
        recover(registry, lab.runtime, document["id"], author="ann")


@pytest.mark.parametrize(
    ("change", "why"),
    [({"lineage": "none"}, "keeps state"), ({"sink": {"kafka": {"topic": "out"}}}, "keeps no position")],
)
def test_what_the_position_alone_cannot_restore_is_refused(
    lab: Any, registry: Registry, change: dict[str, Any], why: str
) -> None:
    document = {**lab.spec("t"), "lineage": "rows", **change}
    _deployed(registry, document, "c")
    with pytest.raises(Refused, match=why):
        recover(registry, lab.runtime, document["id"], author="ann")
