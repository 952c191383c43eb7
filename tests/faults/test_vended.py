"""A driver in a REST catalog that vends credentials of a few seconds for each table: Iceberg's own REST handlers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import reference_rest
from reference_rest import SERVER, Reference

from lakeward.platform.runtime import Project
from lakeward.tables.context import MaintenanceContext

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes
LIFE_S = 6.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    with reference_rest.running(tmp_path_factory.mktemp("reference"), life_s=LIFE_S) as made:
        yield made


@pytest.mark.parametrize(
    "lives",
    [4, pytest.param(20, marks=pytest.mark.campaign(held_by="test_no_batch_fails_though_vended_credentials_expire"))],
)
def test_no_batch_fails_though_vended_credentials_expire(
    world: Any, server: Reference, simple: Callable[..., Any], tmp_path: Path, lives: int
) -> None:
    """Append with quarantine and upsert, a rewrite by another process, and a reader without a JVM."""
    store = server.store
    world.runtime = world.runtime.model_copy(update={"lake": server.lake})
    topic = world.kafka.create_topic()
    rows, counts = f"{world.name}.rows", f"{world.name}.counts"
    stream, counting = f"{world.name}_rows", f"{world.name}_counts"
    world.deploy(simple(stream, topic, rows))
    sink = {"iceberg": {"table": counts, "mode": "upsert", "keys": ["s"]}}
    sql = {"sql": "SELECT s, count(*) AS many FROM source GROUP BY s"}
    more = {"transform": sql, "sink": sink, "spark": {"spark.sql.shuffle.partitions": 1}}
    world.deploy(simple(counting, topic, counts, **more))
    driver = world.launch()
    world.numbers(topic, range(10))
    world.wait_landed(rows, stream, 10)
    site = MaintenanceContext.of(world.runtime, Project(tmp_path / "project"))
    held = site.load(rows)  # a reader that began with the first credentials
    until, number = time.time() + lives * LIFE_S, 10
    while time.time() < until:
        world.numbers(topic, range(number, number + 10))
        number += 10
        world.wait_landed(rows, stream, number)
    assert len(held.scan().to_arrow()) == 10
    world.lake_sql(f"CALL lake.system.rewrite_data_files(table => '{rows}', options => map('rewrite-all', 'true'))")
    world.numbers(topic, range(number, number + 10))
    number += 10
    world.wait_landed(rows, stream, number)
    world.wait_for("all counts", lambda: len(world.rows(counts)) == number)
    assert sorted(site.load(rows).scan().to_arrow()["n"].to_pylist()) == list(range(number))
    processes = (psutil.Process(driver.pid), driver.jvm())
    said = " ".join(word for each in processes for word in [*each.cmdline(), *each.environ().values()])
    assert driver.terminate() == 0, driver.said()

    vended = store.used - {SERVER}
    expired = [key for key in vended if time.time() * 1000 > reference_rest.ends_ms(key)]
    assert len(expired) > 2 * lives, "keys were used, and have expired since"
    assert store.refused == [], "no request had a key that had expired, or that is another table's"
    log = driver.said()
    assert not driver.events("batch waits") and not driver.events("stream failed, will restart")
    assert sorted(row["n"] for row in world.rows(rows)) == list(range(number))
    assert [row["many"] for row in world.rows(counts)] == [1] * number
    files = [each.read_text(errors="replace") for each in world.folder.rglob("*") if each.is_file()]
    for text in (said, log, *files):
        assert not [key for key in vended if key in text]
