"""The records of the campaign: keys that come again, an order, deletes, event times out of order."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from exactly_once_oracle import Record

PARTITIONS, KEYS = 3, 40
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def send(bootstrap: str, topic: str, dice: random.Random, first: int, count: int) -> list[Record]:
    """Send records numbered from `first`; each as the broker took it."""
    from confluent_kafka import Producer

    producer, found = Producer({"bootstrap.servers": bootstrap}), list[Record]()

    def sent(value: dict[str, Any]) -> Any:
        def kept(error: Any, message: Any) -> None:
            assert error is None, error
            found.append(Record((message.partition(), message.offset()), value))

        return kept

    for n in range(first, first + count):
        at = BEGIN + timedelta(seconds=2 * n - dice.randint(0, 600))
        key = dice.randint(0, KEYS)
        value = {
            "n": n, "k": f"k{key}", "v": dice.randint(0, 1000), "op": dice.choice("uuuuuuuuud"), "g": f"g{n // 2}",
            "t": at.isoformat().replace("+00:00", "Z"),
        }  # fmt: skip
        # A key keeps its partition: within one its records are in order, as a change log has them.
        producer.produce(topic, json.dumps(value), partition=key % PARTITIONS, on_delivery=sent(value))
    assert producer.flush(60) == 0
    assert len(found) == count
    return found


def put(folder: Path, records: Sequence[Record], most: int = 5) -> None:
    """The same records as files of a few each, every one there at once."""
    for first in range(0, len(records), most):
        some = records[first : first + most]
        made = folder / f".{some[0].value['n']}"
        made.write_text("".join(json.dumps(each.value) + "\n" for each in some))
        made.rename(folder / f"{some[0].value['n']:06d}.json")
