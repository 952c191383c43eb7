"""A stream whose table and checkpoint stand on an object store (SeaweedFS, over S3's protocol)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import object_store
import psutil
import pytest
from object_store import KEY, SECRET, Weed

from lakeward import jars
from lakeward.connectors.aws import store
from lakeward.control import probes
from lakeward.errors import DependencyDown, SpecError
from lakeward.streams.dependencies import Dependency, Kind

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

WAREHOUSE, CHECKPOINTS = "s3://lake/warehouse", "s3a://lake/checkpoints"
DIES = {"LAKEWARD_FAILPOINT": "after-publish", "LAKEWARD_FAILPOINTS_ALLOWED": "1"}


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    with object_store.running(tmp_path_factory.mktemp("weed")) as made:
        yield made


@pytest.fixture
def on_s3(world: Any, weed: Weed) -> Any:
    """A world whose lake and checkpoints are on the store."""
    lake = world.runtime.lake.model_copy(update={"warehouse": WAREHOUSE, "store": weed.store})
    world.runtime = world.runtime.model_copy(update={"lake": lake, "checkpoints": CHECKPOINTS})
    return world


def test_rows_and_state_on_s3_land_once_though_the_driver_is_killed(
    on_s3: Any, weed: Weed, simple: Callable[..., Any]
) -> None:
    world, name = on_s3, on_s3.name
    topic = world.kafka.create_topic()
    stream, counts = f"{name}_rows", f"{name}_counts"
    world.deploy(simple(stream, topic, f"{name}.rows"))
    counting = "SELECT s, count(*) AS many FROM source GROUP BY s"
    sink = {"iceberg": {"table": f"{name}.counts", "mode": "upsert", "keys": ["s"]}}
    more = {"transform": {"sql": counting}, "sink": sink, "spark": {"spark.sql.shuffle.partitions": 1}}
    world.deploy(simple(counts, topic, f"{name}.counts", **more))
    world.numbers(topic, range(100))
    dying = world.launch(env=DIES)
    assert dying.exit() == -9, dying.said()
    world.forget_leases()
    world.numbers(topic, range(100, 200))
    driver = world.launch(conf={"spark.eventLog.compress": "false"})
    world.wait_landed(f"{name}.rows", stream, 200)
    world.wait_for("all counts", lambda: len(world.rows(f"{name}.counts")) >= 200)
    classpath = driver.jvm().environ()["SPARK_DIST_CLASSPATH"].split(":")
    assert {Path(jar).name for jar in classpath} == {jar.name for jar in jars.s3_classpath()}
    said = " ".join(word for each in (psutil.Process(driver.pid), driver.jvm()) for word in each.cmdline())
    inherited = [*driver.jvm().environ().values(), *psutil.Process(driver.pid).environ().values()]
    assert driver.terminate() == 0, driver.said()

    assert sorted(row["n"] for row in world.rows(f"{name}.rows")) == list(range(200))
    assert [row["many"] for row in world.rows(f"{name}.counts")] == [1] * 200
    below = f"lake/checkpoints/{stream}/1"
    kept = [each.removeprefix(f"{below}/") for each in weed.names(below)]
    assert "metadata" in kept and any(each.startswith("offsets/") for each in kept)
    assert not [each for each in weed.names("lake/checkpoints") if ".tmp" in each], "no copy of a half written file"
    assert [each for each in weed.names(f"lake/checkpoints/{counts}/1/state") if each.endswith(".changelog")]

    whole = "options => map('rewrite-all', 'true')"
    world.lake_sql(f"CALL lake.system.rewrite_data_files(table => '{name}.rows', {whole})")
    assert sorted(row["n"] for row in world.rows(f"{name}.rows")) == list(range(200))
    assert world.position(f"{name}.rows", stream)["totals"]["landed"] == 200
    table = world.catalog().load_table(f"{name}.rows")
    assert table.location().startswith(WAREHOUSE)
    assert table.current_snapshot().summary.operation.value == "replace"

    files = [each for each in world.folder.rglob("*") if each.is_file()]
    assert any(b"fs.s3a.endpoint" in each.read_bytes() for each in files), "the search would find options"
    for where, text in [*((each, each.read_bytes()) for each in files), ("argv", said.encode()),
                        ("environment", "\n".join(inherited).encode())]:  # fmt: skip
        assert SECRET.encode() not in text and KEY.encode() not in text, where


def test_what_is_wrong_with_a_store_is_named(on_s3: Any, weed: Weed, simple: Callable[..., Any]) -> None:
    world, lake = on_s3, on_s3.runtime.lake
    asked = Dependency(Kind.STORE, WAREHOUSE)
    assert probes.ask(world.runtime, [asked]) == {asked: None}

    def as_(name: str, **more: str) -> Any:
        return lake.model_copy(update={"store": weed.connect(name, **more)})

    with pytest.raises(SpecError, match="There is no bucket nowhere"):
        store.check(lake, "s3a://nowhere/checkpoints")
    with pytest.raises(SpecError, match=f"does not let Lakeward into {WAREHOUSE}") as wrong:
        store.check(as_("stale", aws_secret_access_key="wr0ng"), WAREHOUSE)
    assert "SIGNATURE_DOES_NOT_MATCH" in wrong.value.why and "stale.ini" in wrong.value.why
    assert "wr0ng" not in str(wrong.value)
    with pytest.raises(SpecError, match="INVALID_ACCESS_KEY_ID"):
        store.check(as_("stranger", aws_access_key_id="NOBODY"), WAREHOUSE)
    with pytest.raises(DependencyDown, match="The object store does not answer") as away:
        store.check(as_("away", endpoint_url="http://127.0.0.1:9"), WAREHOUSE)
    assert "http://127.0.0.1:9: NETWORK_CONNECTION" in away.value.why
