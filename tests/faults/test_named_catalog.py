"""A lake whose REST catalog has a name of its own, end to end: a server as the catalog `prod`, real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import interpretation
import pyarrow as pa
import pytest
import rest_servers

from lakeward.cli.streams.audit import audit
from lakeward.connectors.spark.application import application
from lakeward.connectors.spark.connect import session
from lakeward.operations.request import Request
from lakeward.operations.restore.restore import Restore
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Refused
from lakeward.platform.runtime import Lake, Project, Runtime
from lakeward.quality.runs.process import CheckingProcess
from lakeward.quality.runs.request import Request as CheckRequest
from lakeward.spec.model.settings import Driver
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.backends.local import LocalBackend
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard import pins

pytestmark = pytest.mark.timeout(900)  # a bound for a hang; a busy machine may need minutes

LOW = """
policies: [{match: '*.*', maintain: true, tags: {enabled: false}}]
unsafe:
  - match: '*.*'
    why: tables of a few rows
    compact: {min_fragments: 2, late_min_fragments: 2, late_after: 1h, cooldown: 1ms, cold_after: 10m}
    expire: {older_than: 1ms, min_snapshots: 1, every: 0s}
"""
SUITE = """
table: {table}
owner: tests
expectations:
  - {{type: expect_column_values_to_not_be_null, kwargs: {{column: n}}, severity: critical, on_fail: hold}}
  - {{type: expect_keys_to_be_in_reference, kwargs: {{columns: [n], reference: {names}, keys: [id]}}}}
"""


@pytest.fixture(params=rest_servers.KINDS)
def served(request: Any, tmp_path: Path) -> Iterator[Lake]:
    with rest_servers.running(tmp_path / "rest", request.param) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path, world: Any) -> Project:
    made = Project(tmp_path / "project")
    made.tables_file.parent.mkdir(parents=True)
    made.expectations.mkdir()
    made.tables_file.write_text(LOW)
    table, names = f"{world.name}.rows", f"{world.name}.names"
    (made.expectations / f"{table}.yaml").write_text(SUITE.format(table=table, names=names))
    return made


def named(world: Any, served: Lake, name: str) -> None:
    """Give the world the REST catalog under this name, and beside it one that is away, and itself as `second`."""
    lake = served.model_copy(update={"name": name})
    away = Lake(name="away", warehouse="w", properties={"type": "rest", "uri": "http://127.0.0.1:9"})
    others = (lake.model_copy(update={"name": "second"}), away)
    world.runtime = world.runtime.model_copy(update={"lake": lake.model_copy(update={"others": others})})


def copying(world: Any) -> dict[str, Any]:
    """A stream from the table of another one, joined with a reference table."""
    return {
        "id": f"{world.name}_copy",
        "source": {"iceberg": {"table": f"{world.name}.rows", "max_files_per_trigger": 10}},
        "reference": {"names": {"iceberg": f"{world.name}.names"}},
        "transform": {"sql": "SELECT source.n, names.label FROM source JOIN names ON source.n = names.id"},
        "sink": {"iceberg": {"table": f"{world.name}.copy"}},
        "trigger": {"every": "500ms"},
    }


def done(document: Any, action: str) -> None:
    [only] = document["actions"]
    assert (only["action"], only["result"], only["verified"]) == (action, "done", True), only


def maintained(runtime: Runtime, project: Project, table: str) -> None:
    """Check, compact and expire the table on a Connect server; read it as users do."""
    small = Driver(cores=1, compiler="quick", spark=interpretation.of_the_gate())
    with application(runtime, "maintenance", small) as served:
        here = served.runtime
        with session(here) as spark:
            for catalog in ("prod", "second"):
                assert spark.sql(f"SELECT count(*) FROM {catalog}.{table}").collect()[0][0] == 40
            assert [row[0] for row in spark.sql("SHOW CATALOGS LIKE 'lake'").collect()] == []
        with CheckingProcess(here) as process:
            asked = CheckRequest(
                runtime=here, registry_url=here.registry_url_file.read_text(), project=project.root, tables=(table,)
            )
            [result] = process.ask(asked, timeout_s=240, emit=lambda level, event, fields: None)
        assert (result["verdict"], [each["state"] for each in result["checks"]]) == ("pass", ["pass", "pass"]), result
        done(run.maintain(here, project, table, ["compact"]), "compact")
        done(run.maintain(here, project, table, ["expire"]), "expire")


@pytest.mark.campaign(
    held_by="tests/unit/connectors/iceberg/test_qualified.py::test_spark_has_the_catalog_by_its_name_alone"
)
def test_a_lake_of_another_name_is_landed_in_checked_maintained_and_audited(
    world: Any, served: Lake, project: Project, simple: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "STAGED_FLOOR", timedelta(0))
    named(world, served, "prod")
    rows, copy, topic = f"{world.name}.rows", f"{world.name}.copy", world.kafka.create_topic()
    site = MaintenanceContext.of(world.runtime, project)
    assert site.catalog.name == "prod"
    site.catalog.create_namespace(world.name)
    names = pa.table({"id": pa.array(range(100), pa.int64()), "label": [f"name {n}" for n in range(100)]})
    site.catalog.create_table(f"{world.name}.names", names.schema).append(names)
    sink = {"iceberg": {"table": rows, "partition_by": ["bucket(2, n)"]}}
    document = simple(f"{world.name}_rows", topic, rows, sink=sink)
    stream, second = world.deploy(document), world.deploy(copying(world))

    driver = world.launch()
    for start in (0, 20):
        world.numbers(topic, range(start, start + 20))
        world.wait_landed(rows, stream, start + 20)
    world.produce(topic, ["no JSON"])
    world.wait_landed(copy, second, 40)
    world.wait_for("the bad record", lambda: len(world.rows(f"{rows}_quarantine")) == 1)
    assert driver.terminate() == 0, driver.said()
    assert sorted(row["label"] for row in world.rows(copy)) == sorted(f"name {n}" for n in range(40))

    maintained(world.runtime, project, rows)
    counted = audit(world.runtime, StreamSpec.model_validate({"owner": "tests", "lineage": "rows", **document}))
    assert (counted["consumed"], counted["landed"], counted["quarantined"], counted["missing"]) == (41, 40, 1, 0)

    nothing = LocalBackend(world.runtime.drivers, wrapper=("/bin/true",))
    operator = Runner(world.connect, world.runtime, author="ann", holder="a test", backend=nothing)
    with pytest.raises(Refused, match="never was one of this table"):
        operator.plan(Restore(operator, Request(Restore.name, rows, "back"), 1))

    # Another name for the same catalog: positions are in the tables, and the tables are the same ones.
    named(world, served, "staging")
    world.forget_leases()
    driver = world.launch()
    world.numbers(topic, range(40, 60))
    world.wait_landed(rows, stream, 60)
    world.wait_landed(copy, second, 60)
    assert driver.terminate() == 0, driver.said()
    assert sorted(row["n"] for row in world.rows(rows)) == list(range(60))
    assert sorted(row["n"] for row in world.rows(copy)) == list(range(60))
