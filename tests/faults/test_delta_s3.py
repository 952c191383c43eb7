"""What people and maintenance do to Delta tables on an object store, while drivers land in them and read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import interpretation
import object_store
import pyarrow.parquet as pq
import pytest
import yaml
from moved_rig import approved
from object_store import Weed
from world import simple_stream

from lakeward.cli.streams.audit import audit
from lakeward.connectors.commit_protocol import position
from lakeward.connectors.delta import location, log
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.folder import Folder, parquet
from lakeward.connectors.delta.position_store import OPERATION
from lakeward.connectors.delta.rollback import SETTLED
from lakeward.operations.request import Approval, Request, StreamOperation
from lakeward.operations.restore.restore import Restore
from lakeward.operations.runner import Runner
from lakeward.platform.runtime import Project
from lakeward.registry import batches, drivers
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.backends import identity
from lakeward.supervision.backends.local import LocalBackend
from lakeward.tables import run
from lakeward.tables.guard import pins

pytestmark = pytest.mark.timeout(1800)  # a bound for a hang; a busy machine may need minutes

POLICY = """
policies:
  - {match: '*.*', engine: submit}
unsafe:
  - match: '*.*'
    why: tables of a few rows
    compact: {min_fragments: 2, late_min_fragments: 2, late_after: 1h, cooldown: 1ms, cold_after: 10m}
    expire: {older_than: 40s, min_snapshots: 1, every: 0s}
"""


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    with object_store.running(tmp_path_factory.mktemp("weed")) as made:
        yield made


@dataclass
class OnS3:
    """A deployment whose Delta tables and checkpoints are on the store, and a project that maintains them at once."""

    world: Any
    weed: Weed
    project: Project

    def table(self, name: str) -> str:
        return f"{self.world.name}.{name}"

    def folder(self, name: str) -> Folder:
        return location.folder_of(self.world.runtime.lake, self.table(name))

    def exists(self, name: str) -> bool:
        """Whether its first commit is there; the folder of the log is there a moment before."""
        return bool(DeltaLog(self.folder(name)).listing().versions)

    def log(self, name: str) -> log.TableLog | None:
        return log.read(self.folder(name))

    def rows(self, name: str) -> list[dict[str, Any]]:
        read = self.log(name)
        assert read is not None
        files = [parquet(log.absolute(read.folder, path)) for path in read.files]
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def numbers(self, name: str) -> list[int]:
        return sorted(row["n"] for row in self.rows(name))

    def landed(self, name: str, rows: int) -> int:
        """Wait until the table's position and the registry count that many rows; returns the position's version."""

        def look() -> Any:
            read = self.log(name) if self.exists(name) else None
            text = None if read is None else read.domains.get(position.key(self.stream(name)))
            at = None if text is None else position.parse(text, self.stream(name), self.table(name))
            if at is None or at.totals.landed < rows:
                return None
            with self.world.connect() as connection:  # the driver records a batch after it has landed
                recorded = batches.newest(connection, self.stream(name), 1)
            return at if recorded and recorded[0].seq >= at.seq else None

        return int(self.world.wait_for(f"{rows} rows in {name}", look).snapshot)

    def stream(self, name: str) -> str:
        return f"{self.world.name}_{name}"

    @property
    def operator(self) -> Runner:
        nothing = LocalBackend(self.world.runtime.drivers, wrapper=("/bin/true",))  # the driver is the test's
        return Runner(self.world.connect, self.world.runtime, author="ann", holder="a test", backend=nothing)

    def launch(self) -> Any:
        """A driver that reconcile (operations run it) knows as its own; a stream keeps it up."""
        keeper, topic = self.stream("keeper"), self.world.kafka.create_topic()
        self.world.deploy(simple_stream(keeper, topic, self.table("keeper"), trigger={"every": "10s"}))
        driver = self.world.launch()
        with self.world.connect() as connection:
            drivers.started(
                connection, self.world.name, driver.launch.token, handle=identity.of(driver.pid), host=identity.host(),
                log=str(driver.launch.folder),
            )  # fmt: skip
        return driver

    def maintain(self, name: str, action: str) -> dict[str, Any]:
        """Maintenance on a Spark application of its own, as soon as the action is due: files that a batch may still
        read are kept for a while."""
        runtime, table = self.world.runtime, self.table(name)
        run.observe(runtime, self.project, [table])
        [done] = self.world.wait_for(
            f"{action} of {table}", lambda: run.maintain(runtime, self.project, table, [action])["actions"]
        )
        assert (done["result"], done["verified"]) == ("done", True), done
        return dict(done)


@pytest.fixture
def on_s3(world: Any, weed: Weed, tmp_path: Path) -> OnS3:
    warehouse = f"s3://lake/{world.name}"
    lake = world.runtime.lake.model_copy(update={"warehouse": f"{warehouse}/warehouse", "store": weed.store})
    world.runtime = world.runtime.model_copy(
        update={"lake": lake, "checkpoints": f"s3a://lake/{world.name}/checkpoints"}
    )
    project = Project(tmp_path / "project")
    project.tables_file.parent.mkdir(parents=True)
    project.tables_file.write_text(POLICY)
    small = {"cores": 1, "memory": "768m", "compiler": "quick", "spark": interpretation.of_the_gate()}
    project.settings_file.write_text(yaml.safe_dump({"drivers": {"maintenance": small}}))
    return OnS3(world, weed, project)


def _spec(place: OnS3, name: str, source: dict[str, Any], sql: str, **more: Any) -> dict[str, Any]:
    return {
        "id": place.stream(name), "source": source, "transform": {"sql": sql}, "trigger": {"every": "500ms"},
        "sink": {"delta": {"table": place.table(name)}}, "resources": {"driver": place.world.name}, **more,
    }  # fmt: skip


def _rows(place: OnS3, topic: str) -> dict[str, Any]:
    """A stream of numbers; it fails at a zero."""
    return _spec(
        place, "rows", {"kafka": {"topics": [topic], "max_offsets_per_trigger": 500}},
        "SELECT *, 12 / n AS share FROM source", lineage="rows", decode={"json": "n BIGINT, s STRING"},
        quarantine={"table": place.table("quarantined")},
    )  # fmt: skip


@pytest.mark.campaign(
    held_by="tests/unit/cli/tables/test_restore_delta.py::"
    "test_on_an_object_store_a_compaction_may_come_first_and_a_kill_after_the_commit_is_finished"
)
def test_a_batch_is_skipped_a_lost_checkpoint_recovered_and_the_table_restored(on_s3: OnS3) -> None:
    world, stream, topic = on_s3.world, on_s3.stream("rows"), on_s3.world.kafka.create_topic()
    document = _rows(on_s3, topic)
    world.deploy(document)
    world.numbers(topic, range(1, 51))
    driver = on_s3.launch()
    on_s3.landed("rows", 50)

    world.numbers(topic, [0])
    failed = world.wait_for("the failure", lambda: world.observation(stream).error)
    skip = Request(StreamOperation.SKIP_BATCH, stream, comment="junk", batch=failed["batch_id"], wait=False)
    plan, skip = approved(on_s3.operator, skip)
    assert plan.data["skipped"] == 1
    on_s3.operator.run(skip)
    world.numbers(topic, range(51, 101))
    on_s3.landed("rows", 100)

    world.desire(stream, "stopped")
    world.wait_for("its stop", lambda: world.observation(stream).query_state == "stopped")
    on_s3.weed.system().delete_dir(f"lake/{world.name}/checkpoints/{stream}")
    on_s3.operator.run(Request(StreamOperation.RECOVER, stream, wait=False))
    world.numbers(topic, range(101, 121))
    before = on_s3.landed("rows", 120)

    world.numbers(topic, range(121, 131))
    on_s3.landed("rows", 130)
    operation = Restore(on_s3.operator, Request(Restore.name, on_s3.table("rows"), "wrong"), before)
    done = on_s3.operator.run(operation.answered("", Approval("bob", operation.plan().key)))
    assert (done.data["records_before"], done.data["records_after"]) == (130, 120)
    on_s3.landed("rows", 130)
    assert driver.terminate() == 0, driver.said()

    assert on_s3.numbers("rows") == list(range(1, 131))
    found = audit(world.runtime, StreamSpec.model_validate({"owner": "tests", **document}))
    assert [found[each] for each in ("landed", "skipped", "missing", "duplicates")] == [130, 1, 0, 0]
    versions = DeltaLog(on_s3.folder("rows")).listing().versions
    operations = [log.commit(on_s3.folder("rows"), version).operation for version in versions]
    assert operations.count("RESTORE") == operations.count(SETTLED) == 1
    assert operations.count(OPERATION) == 2, "skip-batch and recover"


@pytest.mark.campaign(
    held_by="tests/spark/tables/test_delta.py::test_a_table_with_renamed_columns_is_compacted_and_vacuumed"
)
def test_other_streams_read_it_and_what_they_have_read_is_vacuumed(
    on_s3: OnS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "STAGED_FLOOR", timedelta(0))  # no batch of a Delta table is staged
    world, topic, numbers = on_s3.world, on_s3.world.kafka.create_topic(), on_s3.world.kafka.create_topic()
    copy = on_s3.stream("copy")
    world.deploy(_rows(on_s3, topic))
    world.numbers(topic, range(1, 51))
    driver = on_s3.launch()
    on_s3.landed("rows", 50)
    source = {"delta": {"table": on_s3.table("rows"), "max_files_per_trigger": 100}}
    world.deploy(_spec(on_s3, "copy", source, "SELECT n, s FROM source"))
    join = "SELECT f.n, p.s AS known FROM source AS f LEFT JOIN prices AS p ON p.n = f.n"
    reference = {"prices": {"delta": on_s3.table("rows"), "refresh": "1s"}}
    asks, decode = {"kafka": {"topics": [numbers], "max_offsets_per_trigger": 500}}, {"json": "n BIGINT"}
    world.deploy(_spec(on_s3, "joined", asks, join, reference=reference, decode=decode))
    on_s3.landed("copy", 50)
    world.numbers(numbers, [7, 77])
    on_s3.landed("joined", 2)
    world.desire(copy, "stopped")
    world.wait_for("its stop", lambda: world.observation(copy).query_state == "stopped")
    for end in (75, 101):
        world.numbers(topic, range(51 if end == 75 else 75, end))
        on_s3.landed("rows", end - 1)

    bucket = str(on_s3.folder("rows")).removeprefix("s3a://")
    taken = {f"{bucket}/{path}" for path in on_s3.log("rows").files}
    assert on_s3.maintain("rows", "compact")["after"]["files_taken"] == len(taken)
    assert taken <= set(on_s3.weed.names(bucket))

    def waits_for() -> str:
        (planned,) = run.plans(world.runtime, on_s3.project, on_s3.table("rows"))["plans"]
        return next((each["why"] for each in planned["not_planned"] if each["action"] == "expire"), "it is planned")

    world.wait_for("an age at which they could go", lambda: f"kept for stream {copy}" in waits_for())
    world.desire(copy, "running")
    on_s3.landed("copy", 100)
    world.numbers(topic, range(101, 111))
    on_s3.landed("rows", 110)
    on_s3.landed("copy", 110)  # what is kept for it is younger than what was taken out
    gone = on_s3.maintain("rows", "expire")["after"]["files_deleted"]
    assert gone == len(taken)
    assert not taken & set(on_s3.weed.names(bucket))

    world.numbers(numbers, [101])
    on_s3.landed("joined", 3)
    assert driver.terminate() == 0, driver.said()
    assert on_s3.numbers("rows") == on_s3.numbers("copy") == list(range(1, 111))
    assert {row["n"]: row["known"] for row in on_s3.rows("joined")} == {7: "row 7", 77: None, 101: "row 101"}
