"""A driver whose store is reached by a role: its credentials expire every few seconds, tables and checkpoints on S3."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import assumed_role
import psutil
import pytest
from assumed_role import BUCKET, SECRET, TOKEN, Store

from lakeward.platform.runtime import Project
from lakeward.tables.context import MaintenanceContext

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes
LIFE_S = 6.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with assumed_role.running(tmp_path_factory.mktemp("role"), Store) as made:
        yield made


@pytest.mark.parametrize(
    ("connect", "lives"),
    [
        ("by_web_identity", 4),
        pytest.param(
            "by_keys", 20, marks=pytest.mark.campaign(held_by="test_no_batch_fails_though_the_credentials_expire")
        ),
    ],
)
def test_no_batch_fails_though_the_credentials_expire(
    world: Any, server: Store, simple: Callable[..., Any], tmp_path: Path, connect: str, lives: int
) -> None:
    """Append and upsert, with a rewrite by another process and a reader without a JVM that live longer than a key."""
    server.life_s = LIFE_S
    before = len(server.refused)
    lake = {"warehouse": f"s3://{BUCKET}/{world.name}", "store": getattr(server, connect)()}
    lake = world.runtime.lake.model_copy(update=lake)
    checkpoints = f"s3a://{BUCKET}/{world.name}.checkpoints"
    world.runtime = world.runtime.model_copy(update={"lake": lake, "checkpoints": checkpoints})
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
    assert len(site.load(rows).scan().to_arrow()) == 10, "the reader has a client"
    until, number = time.time() + lives * LIFE_S, 10
    while time.time() < until:
        world.numbers(topic, range(number, number + 10))
        number += 10
        world.wait_landed(rows, stream, number)
    world.lake_sql(f"CALL lake.system.rewrite_data_files(table => '{rows}', options => map('rewrite-all', 'true'))")
    world.numbers(topic, range(number, number + 10))
    number += 10
    world.wait_landed(rows, stream, number)
    world.wait_for("all counts", lambda: len(world.rows(counts)) == number)
    assert sorted(site.load(rows).scan().to_arrow()["n"].to_pylist()) == list(range(number))
    processes = (psutil.Process(driver.pid), driver.jvm())
    said = " ".join(word for each in processes for word in [*each.cmdline(), *each.environ().values()])
    assert driver.terminate() == 0, driver.said()

    expired = [key for key in server.used if time.time() > server.until[key]]
    assert len(expired) > 2 * lives, "keys were used, and have expired since"
    assert server.refused[before:] == [], "no request was signed by a key that had expired"
    log = driver.said()
    assert not driver.events("batch waits") and not driver.events("stream failed, will restart")
    assert sorted(row["n"] for row in world.rows(rows)) == list(range(number))
    assert [row["many"] for row in world.rows(counts)] == [1] * number
    files = [each.read_text(errors="replace") for each in world.folder.rglob("*") if each.is_file()]
    for text in (said, log, *files):
        assert SECRET not in text and TOKEN not in text and not [key for key in server.used if key in text]


@pytest.mark.campaign(held_by="tests/unit/connectors/aws/test_roles.py::test_a_refusal_of_sts_is_said_in_its_words")
def test_a_stream_goes_on_by_itself_when_a_refused_role_is_given_again(
    world: Any, server: Store, simple: Callable[..., Any]
) -> None:
    server.life_s = LIFE_S
    lake = {"warehouse": f"s3://{BUCKET}/{world.name}", "store": server.by_keys()}
    world.runtime = world.runtime.model_copy(update={"lake": world.runtime.lake.model_copy(update=lake)})
    topic, table, stream = world.kafka.create_topic(), f"{world.name}.rows", f"{world.name}_rows"
    world.deploy(simple(stream, topic, table))
    driver = world.launch()
    world.numbers(topic, range(10))
    world.wait_landed(table, stream, 10)
    server.refuses = ("AccessDenied", 403)
    world.numbers(topic, range(10, 20))
    try:
        [failed] = world.wait_for("the failure", lambda: driver.events("stream failed, will restart"))
    finally:
        server.refuses = None
    assert failed["failure_class"] == "dependency", failed
    world.wait_landed(table, stream, 20)
    assert driver.terminate() == 0, driver.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(20))
