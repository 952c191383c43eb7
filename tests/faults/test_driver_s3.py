"""A stream whose table and checkpoint stand on an object store (SeaweedFS, over S3's protocol)."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import object_store
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_store import KEY, SECRET, Weed
from pyiceberg.catalog.sql import SqlCatalog

from lakeward import jars
from lakeward.connectors.aws import store
from lakeward.connectors.commit_protocol import position
from lakeward.connectors.delta import location, log, state
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.folder import parquet
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import headers
from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import Project
from lakeward.quality.delta.apart import why_not
from lakeward.quality.delta.frames import _counted
from lakeward.spec.model.policy import Policy
from lakeward.spec.model.sources import FilesSource
from lakeward.supervision import probes
from lakeward.supervision.backends.local import LocalBackend
from lakeward.supervision.decide.dependencies import Dependency, Kind
from lakeward.tables.act.delta import vacuum
from lakeward.tables.context import MaintenanceContext, thresholds
from lakeward.tables.guard.positions import off_main
from lakeward.tables.observe.delta import table_facts
from lakeward.tables.observe.listing import TRASH_FOLDER
from lakeward.tables.orphans import remove_orphans

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

WAREHOUSE, CHECKPOINTS = "s3://lake/warehouse", "s3a://lake/checkpoints"


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


def test_rows_state_and_files_on_s3_land_once_though_the_driver_is_killed(
    on_s3: Any, weed: Weed, simple: Callable[..., Any], tmp_path: Path
) -> None:
    """Each stream dies between its publication and Spark's commit log; then a lost checkpoint is made again."""
    world, name = on_s3, on_s3.name
    topic = world.kafka.create_topic()
    stream, counts, files = f"{name}_rows", f"{name}_counts", f"{name}_files"
    world.deploy(simple(stream, topic, f"{name}.rows"))
    counting = "SELECT s, count(*) AS many FROM source GROUP BY s"
    sink = {"iceberg": {"table": f"{name}.counts", "mode": "upsert", "keys": ["s"]}}
    more = {"transform": {"sql": counting}, "sink": sink, "spark": {"spark.sql.shuffle.partitions": 1}}
    world.deploy(simple(counts, topic, f"{name}.counts", **more))

    def put(file: str, *numbers: int) -> None:
        weed.put(f"lake/in/{file}", "".join(json.dumps({"n": n, "s": f"row {n}"}) + "\n" for n in numbers))

    source = {"path": "s3://lake/in", "format": "json", "max_files_per_trigger": 1, "after": "archive"}
    world.deploy(simple(files, "none", f"{name}.files", source={"files": source}, resources={"driver": name}))
    for number in range(3):
        put(f"below/{number} a.json", number * 2, number * 2 + 1)
    world.numbers(topic, range(100))
    armed = tmp_path / "armed"
    armed.mkdir()
    steps = [armed / f"{each}.after-publish" for each in (stream, counts, files)]
    for step in steps:
        step.write_text("0")
    dying = world.launch(env={"LAKEWARD_FAILPOINTS_ALLOWED": "1", "LAKEWARD_FAILPOINT_FOLDER": str(armed)})
    world.wait_for("every stream's step", lambda: all(Path(f"{step}.reached").exists() for step in steps))
    dying.kill()
    world.forget_leases()

    world.numbers(topic, range(100, 200))
    driver = world.launch(conf={"spark.eventLog.compress": "false"})
    world.wait_landed(f"{name}.rows", stream, 200)
    world.wait_for("all counts", lambda: len(world.rows(f"{name}.counts")) >= 200)
    world.wait_landed(f"{name}.files", files, 6)
    put("late.json", 6, 7)
    world.wait_landed(f"{name}.files", files, 8)
    world.wait_for("an archive", lambda: len(weed.names("lake/in.archived")) >= 2)

    # The checkpoint of the files is lost, and made again from the table, while the driver goes on with the others.
    world.desire(files, "stopped")
    world.wait_for("its stop", lambda: world.observation(files).query_state == "stopped")
    weed.system().delete_dir(f"lake/checkpoints/{files}")
    nothing = LocalBackend(world.runtime.drivers, wrapper=("/bin/true",))
    operator = Runner(world.connect, world.runtime, author="ann", holder="a test", backend=nothing)
    operator.run(Request(StreamOperation.RECOVER, files, wait=False))
    put("more.json", 8)
    world.wait_landed(f"{name}.files", files, 9)
    classpath = driver.jvm().environ()["SPARK_DIST_CLASSPATH"].split(":")
    assert {Path(jar).name for jar in classpath} == {jar.name for jar in jars.s3_classpath()}
    said = " ".join(word for each in (psutil.Process(driver.pid), driver.jvm()) for word in each.cmdline())
    inherited = [*driver.jvm().environ().values(), *psutil.Process(driver.pid).environ().values()]
    assert driver.terminate() == 0, driver.said()

    assert sorted(row["n"] for row in world.rows(f"{name}.rows")) == list(range(200))
    assert [row["many"] for row in world.rows(f"{name}.counts")] == [1] * 200
    rows = world.rows(f"{name}.files")
    assert sorted(row["n"] for row in rows) == list(range(9))
    assert {row["_file_path"] for row in rows if row["n"] < 2} == {"s3a://lake/in/below/0%20a.json"}
    assert "lake/in.archived/in/below/0 a.json" in weed.names("lake/in.archived")
    below = f"lake/checkpoints/{stream}/1"
    kept = [each.removeprefix(f"{below}/") for each in weed.names(below)]
    assert "metadata" in kept and any(each.startswith("offsets/") for each in kept)
    assert not [each for each in weed.names("lake/checkpoints") if ".tmp" in each], "no copy of a half written file"
    assert [each for each in weed.names(f"lake/checkpoints/{counts}/1/state") if each.endswith(".changelog")]

    assert world.position(f"{name}.rows", stream)["totals"]["landed"] == 200
    assert world.catalog().load_table(f"{name}.rows").location().startswith(WAREHOUSE)

    found = [each for each in world.folder.rglob("*") if each.is_file()]
    assert any(b"fs.s3a.endpoint" in each.read_bytes() for each in found), "the search would find options"
    for where, text in [*((each, each.read_bytes()) for each in found), ("argv", said.encode()),
                        ("environment", "\n".join(inherited).encode())]:  # fmt: skip
        assert SECRET.encode() not in text and KEY.encode() not in text, where


@pytest.mark.campaign(
    held_by="tests/spark/connectors/delta/test_commits_s3.py::"
    "test_a_version_is_granted_once_also_where_the_answer_is_lost"
)
def test_delta_tables_on_s3_land_once_though_the_driver_is_killed_and_the_table_is_optimized(
    on_s3: Any, weed: Weed, simple: Callable[..., Any], tmp_path: Path
) -> None:
    """One stream dies before the commit of its batch, the other one after it, before Spark's own commit log."""
    world, name = on_s3, on_s3.name
    topic = world.kafka.create_topic()
    stream, counts = f"{name}_rows", f"{name}_counts"
    table, counted = f"{name}.rows", f"{name}.counts"
    world.deploy(simple(stream, topic, table, sink={"delta": {"table": table}}))
    counting = "SELECT s, count(*) AS many FROM source GROUP BY s"
    sink = {"delta": {"table": counted, "mode": "upsert", "keys": ["s"]}}
    more = {"transform": {"sql": counting}, "sink": sink, "spark": {"spark.sql.shuffle.partitions": 1}}
    world.deploy(simple(counts, topic, counted, **more))
    armed = tmp_path / "armed"
    armed.mkdir()
    world.numbers(topic, range(200))
    steps = [armed / f"{stream}.before-publish", armed / f"{counts}.after-publish"]
    for each in steps:
        each.write_text("0")
    dying = world.launch(env={"LAKEWARD_FAILPOINTS_ALLOWED": "1", "LAKEWARD_FAILPOINT_FOLDER": str(armed)})
    world.wait_for("both streams' step", lambda: all(Path(f"{each}.reached").exists() for each in steps))
    dying.kill()
    world.forget_leases()
    world.numbers(topic, range(200, 300))
    driver = world.launch()
    folder = location.folder_of(world.runtime.lake, table)

    def landed(table: str) -> int:
        read = log.read(location.folder_of(world.runtime.lake, table))
        return 0 if read is None else sum(json.loads(text)["totals"]["landed"] for text in read.domains.values())

    def delta_rows(table: str) -> list[dict[str, Any]]:
        read = log.read(location.folder_of(world.runtime.lake, table))
        files = [parquet(log.absolute(read.folder, path)) for path in read.files]
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    world.wait_for("all rows", lambda: landed(table) >= 300)
    # Maintenance is another process, while the stream lands on.
    world.numbers(topic, range(300, 310))
    now = datetime.now(UTC)
    world.lake_sql(f"OPTIMIZE {location.by_path(folder)}", *vacuum(folder, now - timedelta(days=8), now))
    world.wait_for("the rows that came meanwhile", lambda: landed(table) >= 310)
    world.wait_for("their counts", lambda: landed(counted) >= 310)
    assert driver.terminate() == 0, driver.said()

    assert sorted(row["n"] for row in delta_rows(table)) == list(range(310))
    assert [row["many"] for row in delta_rows(counted)] == [1] * 310
    commits = [log.commit(folder, version) for version in DeltaLog(folder).listing().versions]
    assert "OPTIMIZE" in [each.operation for each in commits if each is not None]
    assert not [each for each in weed.names("lake") if "lakeward-trial" in each]
    read = state.read(folder)
    assert read is not None
    facts = table_facts(table, read, lambda size, properties: thresholds(Policy(), size, properties))
    # A position that is not the head, as after an OPTIMIZE: it is looked for in the log on the store.
    key = position.key(stream)
    held = json.loads(facts.properties[key])
    earlier = json.dumps({**held, "snapshot": held["snapshot"] - 1})
    assert off_main(replace(facts, properties={**facts.properties, key: earlier}), {}) == []
    head = log.head(folder)
    assert head is not None
    for add in log.live(head) or ():
        assert why_not(head, add) is None, "a check reads the rows of one file"
        _counted(head, add)


def test_files_of_both_places_are_reached_by_one_name(on_s3: Any, weed: Weed, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    access = FileAccess(on_s3.runtime.lake)
    for folder in (str(tmp_path / "new"), "s3://lake/new"):
        assert (access.names(folder), access.text(f"{folder}/a")) == ([], None)
        access.write(f"{folder}/a b", b"one")
        access.write(f"{folder}/a b", b"two")
        assert (access.names(folder), access.text(f"{folder}/a b")) == (["a b"], "two")
        access.remove(f"{folder}/a b")
        access.remove(f"{folder}/a b")
        assert access.names(folder) == []
    packed = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), packed)
    access.write("s3://lake/new/x y.parquet", packed.getvalue())
    access.write("s3://lake/new/x.csv.gz", gzip.compress(b"s,n\nx,1\n"))
    declared = StructType([StructField("n", LongType()), StructField("s", StringType())])
    source = {"path": "s3://lake/new", "columns": "n BIGINT, s STRING", "max_files_per_trigger": 1}

    def differs(url: str, kind: str) -> list[str]:
        return headers.differences(access, url, FilesSource.model_validate({**source, "format": kind}), declared)

    assert differs("s3a://lake/new/x%20y.parquet", "parquet") == ["it has no column s"]
    assert differs("s3a://lake/new/x.csv.gz", "csv") == ["its header is s, n; declared are n, s"]
    assert differs("s3a://lake/new/gone.parquet", "parquet") == []
    stale = on_s3.runtime.lake.model_copy(update={"store": weed.connect("stale", aws_secret_access_key="wr0ng")})
    with pytest.raises(SpecError, match="refused access to s3://lake/new") as refused:
        FileAccess(stale).names("s3://lake/new")
    assert "wr0ng" not in str(refused.value)
    with pytest.raises(SpecError, match="No object store is configured for s3://lake/x"):
        FileAccess().names("s3://lake/x")


def test_what_is_wrong_with_a_store_is_named(on_s3: Any, weed: Weed, simple: Callable[..., Any]) -> None:
    world, lake = on_s3, on_s3.runtime.lake
    asked = Dependency(Kind.STORE, WAREHOUSE)
    assert probes.ask(world.runtime, [asked]) == {asked: None}

    def as_(name: str, **more: str) -> Any:
        return lake.model_copy(update={"store": weed.connect(name, **more)})

    with pytest.raises(SpecError, match="Bucket nowhere does not exist"):
        store.check(lake, "s3a://nowhere/checkpoints")
    with pytest.raises(SpecError, match=f"refused access to {WAREHOUSE}") as wrong:
        store.check(as_("stale", aws_secret_access_key="wr0ng"), WAREHOUSE)
    assert "SIGNATURE_DOES_NOT_MATCH" in wrong.value.why and "stale.ini" in wrong.value.why
    assert "wr0ng" not in str(wrong.value)
    with pytest.raises(SpecError, match="INVALID_ACCESS_KEY_ID"):
        store.check(as_("stranger", aws_access_key_id="NOBODY"), WAREHOUSE)
    with pytest.raises(DependencyDown, match="The object store does not answer") as away:
        store.check(as_("away", endpoint_url="http://127.0.0.1:9"), WAREHOUSE)
    assert "http://127.0.0.1:9: NETWORK_CONNECTION" in away.value.why


def test_orphans_on_s3_are_set_aside_and_deleted_and_nothing_else(on_s3: Any, weed: Weed, tmp_path: Path) -> None:
    """No engine: what lists, reads and moves is PyIceberg and pyarrow."""
    import pyarrow as pa

    project = Project(tmp_path / "project")
    project.tables_file.parent.mkdir(parents=True)
    thresholds = "{older_than: 1ms, max_share: 0.9, keep: 1ms, every: 1ms}"
    project.tables_file.write_text(f"unsafe:\n  - {{match: '*.*', why: files of a minute, orphans: {thresholds}}}\n")
    site = MaintenanceContext.of(on_s3.runtime, project)
    rows = pa.table({"n": [1, 2, 3]})
    site.catalog.create_namespace_if_not_exists(on_s3.name)
    name = f"{on_s3.name}.lying"
    table = site.catalog.create_table(name, schema=rows.schema)
    table.append(rows)
    below = site.load(name).metadata.location.removeprefix("s3://")
    needed = set(weed.names(below))
    weed.put(f"{below}/data/crashed run/a=1/é+b.parquet", "left by a writer that died")
    weed.put(f"{below}.sources/stream/source/0", "beside the table, not below it")

    def swept() -> dict[str, Any]:
        [entry] = remove_orphans(site, name)["actions"]
        return entry

    assert swept()["result"] == "skipped"
    second = swept()
    assert (second["result"], second["after"]["taken_files"]) == ("done", 1), second
    left = set(weed.names(below)) - needed
    assert [each.split("/", 6)[-1] for each in left if TRASH_FOLDER in each] == ["data/crashed run/a=1/é+b.parquet"], (
        left
    )
    assert len(left) == 1
    third = swept()
    assert (third["result"], third["after"]["deleted_files"]) == ("done", 1), third
    assert set(weed.names(below)) == needed
    assert weed.names(f"{below}.sources") == [f"{below}.sources/stream/source/0"]
    assert len(site.load(name).scan().to_arrow()) == 3
    other = on_s3.runtime.model_copy(update={"checkpoints": f"s3a://{below}/checkpoints"})
    [refused] = remove_orphans(MaintenanceContext.of(other, project), name)["actions"]
    assert (refused["result"], "a checkpoint lies under its location" in refused["why"]) == ("refused", True)
    assert isinstance(site.catalog, SqlCatalog)
    site.catalog.engine.dispose()
