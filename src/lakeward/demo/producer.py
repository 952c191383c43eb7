"""Kafka producer of the demo: sends the replay at a fixed rate, each record exactly once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable

from confluent_kafka import KafkaError, Producer

from lakeward.demo.flights import Record
from lakeward.platform.errors import DependencyDown

GIVE_UP_S = 60.0  # longer than a restart of the broker
_STEP = 0.05  # seconds between two checks of the rate


class Sender:
    """Produces records from one thread. Idempotent with `acks=all`: a retry never duplicates a record."""

    def __init__(self, bootstrap: str, topic: str, give_up_s: float = GIVE_UP_S) -> None:
        self.topic = topic
        self.sent: Counter[str] = Counter()
        """Kind -> number of records that the broker acknowledged."""
        self.failed: KafkaError | None = None
        self._bootstrap = bootstrap
        self._give_up_s = give_up_s
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": round(give_up_s * 1000),
                "linger.ms": 20,
                "queue.buffering.max.messages": 20_000,
                "message.max.bytes": 8 * 1024 * 1024,
                "log_level": 2,  # no log of the library; delivery errors are in `failed`
                "error_cb": lambda error: None,  # the library retries while a broker restarts
            }
        )

    @property
    def total(self) -> int:
        """Records acknowledged so far."""
        return sum(self.sent.values())

    def send(self, records: Iterable[Record], *, per_second: float, stop: threading.Event | None = None) -> None:
        """Send all records at the rate, until `stop` is set; returns when all are acknowledged.

        Raises:
            DependencyDown: the broker rejected a record, or did not answer in time.
        """
        begun = time.monotonic()
        for handed, record in enumerate(records):
            if stop is not None and stop.is_set():
                break
            ahead = handed / per_second - (time.monotonic() - begun)
            if ahead > _STEP:
                self._producer.poll(0)
                (stop.wait if stop is not None else time.sleep)(ahead)
            self._hand_over(record)
            if self.failed is not None:
                raise _down(self._bootstrap, f"producing to {self.topic}", self.failed)
        self.flush()

    def _hand_over(self, record: Record) -> None:
        def delivered(error: KafkaError | None, message: object, kind: str = record.kind) -> None:
            if error is not None:
                self.failed = error
            else:
                self.sent[kind] += 1

        while True:
            try:
                self._producer.produce(self.topic, key=record.key, value=record.value, on_delivery=delivered)
                self._producer.poll(0)
                return
            except BufferError:  # the queue is full: the broker is slower than the replay
                self._producer.poll(0.5)

    def flush(self) -> None:
        """Wait until all records are acknowledged."""
        unacknowledged = self._producer.flush(self._give_up_s)
        if self.failed is not None:
            raise _down(self._bootstrap, f"producing to {self.topic}", self.failed)
        if unacknowledged:
            raise DependencyDown(
                "Kafka does not accept the demo's flights",
                why=f"{unacknowledged} records not acknowledged by {self._bootstrap} within {self._give_up_s:.0f} s",
                next="lakeward stack status",
                code="LW-7414",
            )


def _down(bootstrap: str, doing: str, error: KafkaError) -> DependencyDown:
    return DependencyDown(
        "Kafka rejected the demo's records",
        why=f"{doing} at {bootstrap}: {error.str()}",
        next="lakeward stack status",
        code="LW-7413",
    )
