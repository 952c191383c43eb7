"""A driver killed at every step of landing, with the tightest expiry in between, loses and doubles nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lakeward.connectors.iceberg import pytable
from lakeward.connectors.iceberg.audit import audit

STEPS = (
    "after-check",
    "after-stage",
    "after-quarantine",
    "before-publish",
    "after-publish",
    "after-land",
    "before-return",
)
RECORDS = 200


def _expire(catalog: Any, table: str) -> None:
    """Keep the head alone, as the tightest `expire_snapshots` would: no trace of the batch but the position."""
    loaded = catalog.load_table(table)
    if loaded.current_snapshot() is not None:
        loaded.maintenance.expire_snapshots().older_than(datetime.now(UTC).replace(tzinfo=None)).commit()


@pytest.mark.timeout(900)
def test_a_driver_killed_at_every_step_lands_every_record_once(world: Any, simple: Callable[..., Any]) -> None:
    topic, table, stream = world.kafka.create_topic(partitions=2), f"{world.name}.landed", f"{world.name}_s"
    world.deploy(simple(stream, topic, table))
    catalog = world.catalog()
    sent = 0
    for step in STEPS:
        world.numbers(topic, range(sent, sent + RECORDS))
        world.produce(topic, [f"broken at {step}"])
        sent += RECORDS
        driver = world.launch(env={"LAKEWARD_FAILPOINT": step, "LAKEWARD_FAILPOINTS_ALLOWED": "1"})
        assert driver.exit() == -signal.SIGKILL, driver.said()
        _expire(catalog, table)

    driver = world.launch()
    world.wait_landed(table, stream, sent)
    assert driver.terminate() == 0, driver.said()

    assert sorted(row["n"] for row in world.rows(table)) == list(range(sent))
    aside = sorted(bytes(row["raw"]).decode() for row in world.rows(f"{table}_quarantine"))
    assert aside == sorted(f"broken at {step}" for step in STEPS)
    loaded = catalog.load_table(table)
    found = audit(loaded, stream, pytable.positions(loaded)[stream], catalog.load_table(f"{table}_quarantine"))
    catalog.close()
    if "_kafka_offset" in {field.name for field in loaded.schema().fields}:
        assert found.clean, found
        assert (found.consumed, found.landed, found.quarantined) == (sent + len(STEPS), sent, len(STEPS))
