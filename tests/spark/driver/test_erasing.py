"""Rows erased from a MERGE's table under its stream: no file holds them, and the stream goes on as if nothing was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from moved_rig import Registry, accepted, deployed

from lakeward.cli.streams.audit import audit
from lakeward.connectors.iceberg.pyiceberg_table import state_of
from lakeward.operations.erase import plan as planning
from lakeward.operations.erase.erase import Erase
from lakeward.operations.erase.plan import Scope
from lakeward.operations.request import Approval, Request
from lakeward.operations.runner import Runner
from lakeward.registry import streams
from lakeward.spec.model.stream import StreamSpec
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1800)  # a bound for a hang; a busy machine may need minutes


def texts(table: Any) -> set[str]:
    """Every text of every Parquet file below a table, of whatever column."""
    found: set[str] = set()
    root = Path(table.location().removeprefix("file://"))
    for file in root.rglob("*.parquet"):
        for column in pq.ParquetFile(file).read().to_pydict().values():
            found |= {each.decode() if isinstance(each, bytes) else str(each) for each in column if each is not None}
    return found


def once(hook: Callable[[], None]) -> Callable[[], None]:
    passed: list[int] = []

    def run() -> None:
        if not passed:
            passed.append(1)
            hook()

    return run


@pytest.mark.campaign(held_by="tests/unit/cli/tables/test_erase.py::test_killed_anywhere_the_same_command_goes_on")
@pytest.mark.parametrize("mode", ["upsert", "append"])
def test_under_its_stream(lab: Any, registry: Registry, operator: Runner, catalog: Any, mode: str) -> None:
    topic = lab.topic()
    sink = {"table": f"{lab.namespace}.t", "mode": mode}
    sink |= (
        {"keys": ["n"], "order_by": "_kafka_offset", "write": "merge-on-read"}
        if mode == "upsert"
        else {"partition_by": ["bucket(2, n)"]}
    )
    document = lab.spec(topic, sink={"iceberg": sink}, lineage="rows", rules={"small": "n < 90"})
    wanted = lab.wanted(document)
    deployed(registry, document, wanted.checkpoint)
    with registry() as connection:
        streams.set_desired(connection, [document["id"]], "running")
    name, sent = f"{lab.namespace}.t", 0

    def start() -> Any:
        running = lab.starter().start(replace(accepted(registry, document["id"], wanted), document=document))
        lab.started.append(running)
        return running

    def land(*values: Any) -> None:
        nonlocal sent
        lab.produce(topic, list(values))
        sent += len(values)
        lab.until("the records", lambda: sum(each.consumed for each in lab.done) >= sent)

    query = start()
    land({"n": 1, "s": "ann"}, {"n": 2, "s": "bob"}, {"n": 3, "s": "eve"})
    land({"n": 2, "s": "bert"}, {"n": 1, "s": "ann2"}, {"n": 97, "s": "ann"}, {"n": 98, "s": "joe"}, '{"s": "ann", ')
    loaded = catalog.load_table(name)
    assert {"ann", "bob", "eve"} <= texts(loaded), "what a MERGE replaced is still there"

    scope = Scope(name, "s = 'ann'")
    plan = planning.plan(operator, scope)
    assert plan.drains == (document["id"],)
    with failpoints.on("erase-stopped", once(lambda: _stopped(query))):
        request = Request(Erase.name, name, "ticket 7", approval=Approval("bob", plan.key))
        done = operator.run(Erase(operator, request, scope))
    assert done.data["quarantined"] == 2

    loaded = catalog.load_table(name)
    for table in (loaded, catalog.load_table(f"{lab.namespace}.q")):
        assert not [each for each in texts(table) if each == "ann" or '"ann"' in each]
        assert len(table.metadata.snapshots) == 1
    assert {"ann2", "bert", "eve"} <= texts(loaded)
    assert state_of(loaded.metadata, document["id"], name).ancestry.right
    with registry() as connection:
        assert streams.get(connection, document["id"]).desired == "running", "the stream goes on as before"

    query = start()
    land({"n": 3, "s": "eva"}, {"n": 4, "s": "kim"})
    _stopped(query)
    left = {row["s"] for row in lab.rows()}
    assert left == {"ann2", "bert", "eva", "kim"} | ({"bob", "eve"} if mode == "append" else set())
    assert [row["n"] for row in lab.rows("q", "get_json_object(row, '$.n') AS n") if row["n"]] == ["98"]
    if mode == "append":
        found = audit(lab.runtime, StreamSpec.model_validate(document))
        told = {each: found[each] for each in ("consumed", "landed", "quarantined", "erased", "missing", "duplicates")}
        assert told == {
            "consumed": 10, "landed": 6, "quarantined": 1, "erased": 3, "missing": 0, "duplicates": 0,
        }  # fmt: skip


def _stopped(query: Any) -> None:
    assert query.stop(60)
