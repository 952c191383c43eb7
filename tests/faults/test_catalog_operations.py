"""What a person does to a stream and its table in a catalog of another kind, with drivers as processes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import metastore
import pytest
import rest_servers
from moved_rig import approved

from lakeward.cli.streams.audit import audit
from lakeward.operations.erase import plan as erasing
from lakeward.operations.erase.erase import Erase
from lakeward.operations.erase.plan import Scope
from lakeward.operations.request import Approval, Request, StreamOperation
from lakeward.operations.restore.restore import Restore
from lakeward.operations.runner import Runner
from lakeward.platform.runtime import Lake
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.backends.local import LocalBackend

pytestmark = pytest.mark.timeout(900)  # a bound for a hang; a busy machine may need minutes


@pytest.fixture(params=["hive", *rest_servers.KINDS])
def lake(request: Any, postgres: Any, tmp_path: Path) -> Iterator[Lake]:
    """A real Hive Metastore on PostgreSQL, SeaweedFS' REST catalog, or Iceberg's own handlers that vend credentials."""
    if request.param in rest_servers.KINDS:
        with rest_servers.running(tmp_path / "rest", request.param) as rest:
            yield rest
        return
    name = postgres.create_database()
    with metastore.running(tmp_path / "hive", metastore.on_postgres(postgres, name, tmp_path / "db.json")) as made:
        yield Lake(warehouse=str(made.warehouse), properties=made.properties)
    postgres.drop_database(name)


@pytest.mark.campaign(held_by="tests/unit/tables/test_hive_catalog.py::test_of_two_commits_on_one_base_one_is_taken")
def test_a_batch_is_skipped_a_position_moved_a_checkpoint_recovered_the_table_restored_and_rows_erased(
    world: Any, lake: Lake, simple: Callable[..., Any]
) -> None:
    world.runtime = world.runtime.model_copy(update={"lake": lake})
    nothing = LocalBackend(world.runtime.drivers, wrapper=("/bin/true",))
    operator = Runner(world.connect, world.runtime, author="ann", holder="a test", backend=nothing)
    table, topic = f"{world.name}.rows", world.kafka.create_topic()
    sql = {"sql": "SELECT *, 12 / n AS share FROM source"}
    more = {"transform": sql, "lineage": "rows", "resources": {"driver": world.name}}
    document = simple(f"{world.name}_rows", topic, table, **more)
    stream = world.deploy(document)

    def landed(rows: int) -> int:
        world.wait_for(f"{rows} rows", lambda: len(world.rows(table)) == rows)
        return int(world.catalog().load_table(table).current_snapshot().snapshot_id)

    def start() -> Any:
        """A driver; it ends by itself when its only stream does."""
        world.forget_leases()
        world.desire(stream, "running")
        return world.launch()

    def stop(driver: Any) -> None:
        world.desire(stream, "stopped")
        assert driver.exit() == 0, driver.said()

    world.numbers(topic, range(1, 51))
    killed = world.launch()
    landed(50)
    killed.kill()
    driver = start()
    world.numbers(topic, [0])
    failed = world.wait_for("the failure", lambda: world.observation(stream).error)
    skip = Request(StreamOperation.SKIP_BATCH, stream, comment="junk", batch=failed["batch_id"], wait=False)
    plan, skip = approved(operator, skip)
    assert plan.data["skipped"] == 1
    driver.exit()
    operator.run(skip)
    driver = start()
    world.numbers(topic, range(51, 101))
    landed(100)

    stop(driver)
    shutil.rmtree(Path(world.runtime.checkpoints.removeprefix("file://")) / stream)
    operator.run(Request(StreamOperation.RECOVER, stream, wait=False))
    driver = start()
    world.numbers(topic, range(101, 121))
    before = landed(120)
    world.numbers(topic, range(121, 131))
    landed(130)
    stop(driver)
    operation = Restore(operator, Request(Restore.name, table, "wrong"), before)
    done = operator.run(operation.answered("", Approval("bob", operation.plan().key)))
    assert (done.data["records_before"], done.data["records_after"]) == (130, 120)
    driver = start()
    landed(130)

    stop(driver)
    erased = 0 if lake.store is not None else 7  # SeaweedFS refuses the file that an erase writes in the meantime
    if erased:
        scope = Scope(table, f"n = {erased}")
        request = Request(Erase.name, table, "ticket 7", approval=Approval("bob", erasing.plan(operator, scope).key))
        assert operator.run(Erase(operator, request, scope)).data["rows"] == 1
    world.numbers(topic, range(131, 141))
    reset = Request(StreamOperation.RESET, stream, comment="not these", to="latest", wait=False)
    plan, reset = approved(operator, reset)
    assert plan.data["skipped"] == 10
    operator.run(reset)
    driver = start()
    world.numbers(topic, range(200, 210))
    landed(139 if erased else 140)
    stop(driver)
    expected = [n for n in (*range(1, 131), *range(200, 210)) if n != erased]
    assert sorted(row["n"] for row in world.rows(table)) == expected
    found = audit(world.runtime, StreamSpec.model_validate({"owner": "tests", **document}))
    assert [found[each] for each in ("skipped", "missing", "duplicates")] == [11, 0, 0], found
