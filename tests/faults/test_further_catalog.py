"""Two catalogs at once, end to end: a default one, another as `staging`, and a third one that is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import interpretation
import metastore
import pyarrow as pa
import pytest
import rest_servers
from rest_servers import HANDLERS, SEAWEEDFS

from lakeward.cli.streams.audit import audit
from lakeward.connectors.iceberg.catalogs.refusals import Away
from lakeward.connectors.spark.application import application
from lakeward.platform.runtime import Lake, Project, Runtime
from lakeward.quality.runs.process import CheckingProcess
from lakeward.quality.runs.request import Request as CheckRequest
from lakeward.spec.model.settings import Driver
from lakeward.spec.model.stream import StreamSpec
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard import pins

pytestmark = pytest.mark.timeout(900)  # a bound for a hang; a busy machine may need minutes

LOW = """
policies: [{match: 'staging.*', maintain: true, tags: {enabled: false}}]
unsafe:
  - match: 'staging.*'
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


EMBEDDED, HIVE = "embedded", "hive"
NIGHT = pytest.mark.campaign(held_by="test_a_further_catalog_is_landed_in_read_from_checked_maintained_and_audited")


@contextmanager
def running(kind: str, world: Any, folder: Path) -> Iterator[Lake]:
    """A catalog of this kind."""
    if kind == EMBEDDED:
        yield world.runtime.lake
    elif kind == HIVE:
        with metastore.running(folder) as hive:
            yield Lake(warehouse=str(hive.warehouse), properties=hive.properties)
    else:
        with rest_servers.running(folder, kind) as lake:
            yield lake


@pytest.fixture(
    params=[
        pytest.param((EMBEDDED, SEAWEEDFS), id="embedded-seaweedfs"),
        pytest.param((SEAWEEDFS, HANDLERS), id="seaweedfs-handlers", marks=NIGHT),
        pytest.param((EMBEDDED, HIVE), id="embedded-hive", marks=NIGHT),
    ]
)
def two(request: Any, world: Any, tmp_path: Path) -> Iterator[Any]:
    """The world with a default catalog, and the further ones `staging` and `away`."""
    first, second = request.param
    away = Lake(name="away", warehouse="w", properties={"type": "rest", "uri": "http://127.0.0.1:9"})
    with running(first, world, tmp_path / "first") as default, running(second, world, tmp_path / "second") as further:
        staging = further.model_copy(update={"name": "staging"})
        lake = default.model_copy(update={"others": (staging, away)})
        world.runtime = world.runtime.model_copy(update={"lake": lake})
        yield world


@pytest.fixture
def project(tmp_path: Path, two: Any) -> Project:
    made = Project(tmp_path / "project")
    made.tables_file.parent.mkdir(parents=True)
    made.expectations.mkdir()
    made.tables_file.write_text(LOW)
    table, names = f"staging.{two.name}.rows", f"staging.{two.name}.names"
    (made.expectations / f"{table}.yaml").write_text(SUITE.format(table=table, names=names))
    return made


def copying(name: str) -> dict[str, Any]:
    """A stream from the further catalog into the default one, joined with a table of the further one."""
    return {
        "id": f"{name}_copy",
        "source": {"iceberg": {"table": f"staging.{name}.rows", "max_files_per_trigger": 10}},
        "reference": {"names": {"iceberg": f"staging.{name}.names"}},
        "transform": {"sql": "SELECT source.n, names.label FROM source JOIN names ON source.n = names.id"},
        "sink": {"iceberg": {"table": f"{name}.copy"}},
        "trigger": {"every": "500ms"},
    }


def done(document: Any, action: str) -> None:
    [only] = document["actions"]
    assert (only["action"], only["result"], only["verified"]) == (action, "done", True), only


def maintained(runtime: Runtime, project: Project, table: str) -> None:
    """Check, compact and expire the table on a Connect server."""
    small = Driver(cores=1, compiler="quick", spark=interpretation.of_the_gate())
    with application(runtime, "maintenance", small) as served:
        here = served.runtime
        with CheckingProcess(here) as process:
            asked = CheckRequest(
                runtime=here, registry_url=here.registry_url_file.read_text(), project=project.root, tables=(table,)
            )
            [result] = process.ask(asked, timeout_s=240, emit=lambda level, event, fields: None)
        assert (result["verdict"], [each["state"] for each in result["checks"]]) == ("pass", ["pass", "pass"]), result
        done(run.maintain(here, project, table, ["compact"]), "compact")
        [staging, _] = here.lake.others
        lake = here.lake.model_copy(update={"others": (staging,)})
        expired = run.maintain(here.model_copy(update={"lake": lake}), project, table, ["expire"])
        done(expired, "expire")
        assert "left" not in expired["actions"][0]["why"], expired


def test_a_further_catalog_is_landed_in_read_from_checked_maintained_and_audited(
    two: Any, project: Project, simple: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "STAGED_FLOOR", timedelta(0))
    rows, copy, topic = f"staging.{two.name}.rows", f"{two.name}.copy", two.kafka.create_topic()
    site = MaintenanceContext.of(two.runtime, project)
    site.catalog.create_namespace(("staging", two.name))
    names = pa.table({"id": pa.array(range(100), pa.int64()), "label": [f"name {n}" for n in range(100)]})
    site.catalog.create_table(("staging", two.name, "names"), names.schema).append(names)
    sink = {"iceberg": {"table": rows, "partition_by": ["bucket(2, n)"]}}
    document = simple(f"{two.name}_rows", topic, rows, sink=sink)
    stream, second = two.deploy(document), two.deploy(copying(two.name))

    driver = two.launch()
    for start in (0, 20):
        two.numbers(topic, range(start, start + 20))
        two.wait_landed(rows, stream, start + 20)
    two.produce(topic, ["no JSON"])
    two.wait_landed(copy, second, 40)
    two.wait_for("the bad record", lambda: len(two.rows(f"{rows}_quarantine")) == 1)
    assert driver.terminate() == 0, driver.said()
    assert sorted(row["label"] for row in two.rows(copy)) == sorted(f"name {n}" for n in range(40))
    if two.runtime.lake.others[0].rest:
        assert site.load(rows).refs()[f"lakeward.stream.{stream}"] is not None, "the fence of a REST catalog"
    known = site.names()
    assert {rows, f"{rows}_quarantine", f"staging.{two.name}.names", copy} <= set(known)
    assert not [name for name in known if name.startswith("away.")]
    with pytest.raises(Away, match="Catalog away"):  # so no file is deleted: a table there may use it
        site.pointers()

    maintained(two.runtime, project, rows)
    counted = audit(two.runtime, StreamSpec.model_validate({"owner": "tests", "lineage": "rows", **document}))
    assert (counted["consumed"], counted["landed"], counted["quarantined"], counted["missing"]) == (41, 40, 1, 0)
