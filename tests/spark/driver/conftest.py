"""Streams started in this process, as the driver starts them, on a real broker and a real catalog."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from moved_rig import Registry

from lakeward import jars
from lakeward.driver.starting import QueryLauncher
from lakeward.engine.assignment import Assignment
from lakeward.engine.batch import FinishedBatch
from lakeward.operations.runner import Runner
from lakeward.platform.runtime import Lake, Runtime
from lakeward.registry.engine import connect, engine
from lakeward.supervision.backends.local import LocalBackend

PATIENCE_S = 900.0


@dataclass
class Lab:
    """Starts streams and remembers their batches."""

    spark: Any
    runtime: Runtime
    kafka: Any
    namespace: str
    folder: Path
    done: list[FinishedBatch] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)
    started: list[Any] = field(default_factory=list)
    leased: Callable[[str], None] = lambda stream: None
    declared: Callable[[], dict[str, str] | None] = lambda: None
    quarantine_tables: Callable[[str], set[str] | None] = lambda stream: set()
    late_kept: Callable[[str, str], tuple[int, Sequence[str]] | None] = lambda stream, table: None

    def topic(self, partitions: int = 1, **config: str) -> str:
        return str(self.kafka.create_topic(partitions=partitions, config=config))

    def produce(self, topic: str, values: Sequence[Any]) -> None:
        """Send records: bytes and text as they are, None as a tombstone, anything else as JSON."""
        from confluent_kafka import Producer

        # Nothing is sent before `flush`: the records come at once, so that a small number of them is one batch.
        settings = {"bootstrap.servers": self.kafka.bootstrap, "message.max.bytes": 20_000_000, "linger.ms": 60_000}
        producer = Producer(settings)
        producer.list_topics(topic, timeout=60)  # without the topic's leader, `flush` may send the first record alone
        for value in values:
            raw = value if value is None or isinstance(value, str | bytes) else json.dumps(value)
            producer.produce(topic, raw, partition=0)
            producer.poll(0)
        assert producer.flush(60) == 0

    def spec(self, topic: str, **more: Any) -> dict[str, Any]:
        """A stream that lands `{"n", "s"}` records; its table is `<namespace>.t`."""
        return {
            "id": f"s_{self.namespace}",
            "owner": "tests",
            "source": {"kafka": {"topics": [topic], "max_offsets_per_trigger": 1000}},
            "decode": {"json": "n INT, s STRING"},
            "transform": {"sql": "SELECT * FROM source"},
            "sink": {"iceberg": {"table": f"{self.namespace}.t"}},
            "quarantine": {"table": f"{self.namespace}.q"},
            "trigger": {"every": "500ms"},  # a stream without records costs a seventh of a core at 200 ms, here little
            **more,
        }

    def wanted(self, document: dict[str, Any], **more: Any) -> Assignment:
        stream = document["id"]
        return Assignment(stream, 1, document, f"{self.folder}/checkpoints/{stream}/1", **more)

    def starter(self) -> QueryLauncher:
        from pyspark.sql.streaming.listener import StreamingQueryListener

        progress = self.progress

        class Keep(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None: ...
            def onQueryProgress(self, event: Any) -> None:
                progress.append(json.loads(event.progress.json))

            def onQueryIdle(self, event: Any) -> None: ...
            def onQueryTerminated(self, event: Any) -> None: ...

        return QueryLauncher(
            self.spark, self.runtime, lambda s: self.leased(s), self.done.append, lambda wanted: Keep(),
            lambda: self.declared(), lambda stream: self.quarantine_tables(stream),
            lambda stream, table: self.late_kept(stream, table),
        )  # fmt: skip

    def start(self, document: dict[str, Any], **more: Any) -> Any:
        running = self.starter().start(self.wanted(document, **more))
        self.started.append(running)
        return running

    def until(self, what: str, done: Callable[[], Any]) -> None:
        """Wait for something; a query that failed meanwhile is the answer to why it did not come."""
        end = time.monotonic() + PATIENCE_S
        while True:
            begun = time.monotonic()
            if done():
                return
            looked_s = time.monotonic() - begun
            # The driver does not ask a stopped query for its failure either: Spark takes a stop that interrupts reading
            # of an Iceberg manifest for an error of the query.
            for running in (each for each in self.started if not each.gate.closed):
                failure = running.failure()
                assert failure is None, f"{what} did not come: {failure}"
            assert time.monotonic() < end, f"{what} did not come within {PATIENCE_S:.0f} s"
            time.sleep(min(max(0.05, 5 * looked_s), 2.0))  # a look may be a query, which the stream has to wait for

    def until_batch(self, what: str, done: Callable[[], Any]) -> None:
        """Wait for what a batch brings about: a look that costs a query is repeated when another batch has finished."""
        seen = -1

        def look() -> Any:
            nonlocal seen
            if len(self.done) == seen:
                return False
            seen = len(self.done)
            return done()

        self.until(what, look)

    def until_rows(self, number: int, table: str = "t") -> None:
        self.until_batch(f"{number} rows", lambda: len(self.rows(table, "1")) >= number)

    def land(self, topic: str, *values: Any) -> None:
        """Send records to the stream that runs, and wait until it consumed them."""
        before = sum(done.consumed for done in self.done)
        self.produce(topic, values)
        self.until("the records", lambda: sum(done.consumed for done in self.done) >= before + len(values))

    def run(self, document: dict[str, Any], records: int) -> Any:
        """Start a stream, wait until it consumed that many records, stop it between two batches."""
        before = len(self.done)
        running = self.start(document)
        self.until(f"{records} records", lambda: sum(d.consumed for d in self.done[before:]) >= records)
        assert running.stop(60)
        return running

    def fail(self, document: dict[str, Any]) -> BaseException:
        """Start a stream and wait for its failure."""
        return self.failed(self.start(document))

    def failed(self, running: Any) -> BaseException:
        """Wait for the failure of a running stream."""
        end = time.monotonic() + PATIENCE_S
        while running.active:
            assert time.monotonic() < end, "the query did not fail"
            time.sleep(0.05)
        failure = running.failure()
        assert failure is not None
        return failure[0]

    def rows(self, table: str = "t", columns: str = "*") -> list[dict[str, Any]]:
        return [
            row.asDict() for row in self.spark.sql(f"SELECT {columns} FROM lake.{self.namespace}.{table}").collect()
        ]


@pytest.fixture
def lab(spark: Any, speed: None, lake: Lake, kafka: Any, namespace: str, tmp_path: Path) -> Iterator[Lab]:
    runtime = Runtime(
        registry_url_file=tmp_path / "none", lake=lake, kafka={"lakeward_kafka": kafka.bootstrap},
        checkpoints=str(tmp_path / "checkpoints"), drivers=tmp_path, jars=jars.spark_folder(),
    )  # fmt: skip
    made = Lab(spark, runtime, kafka, namespace, tmp_path)
    yield made
    for each in made.started:
        with suppress(Exception):
            each.kill()


@pytest.fixture
def suffix() -> str:
    return uuid4().hex[:6]


@pytest.fixture
def registry(postgres: Any) -> Iterator[Registry]:
    name = postgres.create_registry()
    yield lambda: connect(postgres.url(name), postgres.pgpass)
    engine(postgres.url(name), postgres.pgpass).dispose()
    postgres.drop_database(name)


@pytest.fixture
def operator(lab: Any, registry: Registry) -> Runner:
    nothing = LocalBackend(lab.runtime.drivers, wrapper=("/bin/true",))  # the queries run in this process
    return Runner(registry, lab.runtime, author="ann", holder="a test", backend=nothing)
