"""Every loop over items goes on past the item that fails: the table of all such loops, and each made to fail."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from small_streams import backend, connected, deployed, eventually, registry_file, runtime
from sqlalchemy import update

from lakeward import platform
from lakeward.platform.runtime import Project, Runtime
from lakeward.quality.results import status
from lakeward.quality.runs import dry_run
from lakeward.registry import incidents as incident_rows
from lakeward.registry.schema import streams as stream_rows
from lakeward.supervision import act, announce, check_requests, incidents, observe, reconcile, stabilization
from lakeward.supervision.backends.local import LocalBackend
from lakeward.supervision.decide import reconcile as decisions
from lakeward.supervision.decide import stability
from lakeward.supervision.observe import Connect
from lakeward.supervision.report import document
from lakeward.supervision.report.material import observe_all
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext

__all__ = ["backend", "connected", "deployed", "eventually", "registry_file", "runtime"]  # fixtures

due = import_module("lakeward.supervision.report.due")  # the package has a function of that name
SOURCES = Path(platform.__file__).parents[1]
ELSEWHERE = {
    "airflow/deadlines:close_ended": "tests/unit/airflow/test_deadlines.py",
    "airflow/observe_dag:_unseen": "the table is as unchecked as before: the next observation asks again",
    "airflow/reconcile_dag:reconcile_streams": "start_report of Airflow; the report stays due",
    "cli/deep:_found": "tests/unit/cli/test_deep.py",
    "connectors/files/cleaning:_first": "one mark; without it the last batch is cleaned",
    "connectors/files/cleaning:check": "one folder; what is not known is asked again before a file is cleaned",
    "connectors/files/cleaning:clean": "tests/unit/connectors/files/test_cleaning.py",
    "connectors/files/cleaning:forget": "one mark",
    "driver/lag:once": "tests/unit/driver/test_lag.py",
    "engine/batch:_failures_of_sources": "tests/unit/engine/test_batch_failures.py",
    "lineage/emit:_due": "tests/unit/cli/test_lineage.py",
    "lineage/emit:_made": "tests/unit/cli/test_lineage.py",
    "lineage/emit:_send": "no loop over items that stand alone: events are in order, what failed stays due",
    "metrics/samples:of_everything": "tests/unit/cli/test_metrics.py",
    "quality/engine/settling:settle_all": "tests/unit/quality/engine/test_settling.py",
    "quality/runs/run:run": "tests/spark/quality/test_run.py",
    "quality/suite/known_columns:of_table": "tests/unit/cli/test_damaged_tables.py",
    "supervision/abandoned_operations:finish": "a savepoint for each operation, as for incidents",
    "supervision/backends/kubernetes:_remove_ended": "tests/unit/supervision/backends/test_kubernetes.py",
    "supervision/backends/kubernetes:find": "tests/unit/supervision/backends/test_kubernetes.py",
    "supervision/backends/launch_rows:judged": "tests/unit/supervision/backends/test_standalone.py",
    "supervision/backends/local:_launched": "tests/unit/supervision/test_unreadable_rows.py",
    "supervision/backends/local:find": "tests/unit/supervision/test_unreadable_rows.py",
    "supervision/backends/standalone:find": "tests/unit/supervision/backends/test_standalone.py",
    "supervision/backends/yarn:find": "tests/unit/supervision/backends/test_yarn.py",
    "supervision/incidents:_alone": "the loops over incidents",
    "supervision/incidents:of_dependencies": "a savepoint for each dependency, as for streams",
    "supervision/late_proofs:watch": "tests/unit/supervision/test_late_proofs.py",
    "supervision/notify/deliver:deliver": "tests/unit/supervision/test_unreadable_rows.py",
    "supervision/observe:thrash": "tests/unit/supervision/test_unreadable_rows.py",
    "supervision/relaunch:_pass": "tests/unit/supervision/test_relaunch.py",
    "supervision/retention:launches": "tests/unit/supervision/test_retention.py",
    "tables/expiry:_deleted": "one table; orphan removal deletes what is left: tests/unit/tables/test_file_owners.py",
    "tables/expiry:run": "one table, whose error is judged by the metadata: tests/unit/tables/test_file_owners.py",
    "tables/guard/owners:others": "tests/unit/tables/test_file_owners.py",
    "tables/guard/readers:registered": "tests/unit/supervision/test_unreadable_rows.py",
    "tables/needs:read_registry": "tests/unit/supervision/test_unreadable_rows.py",
    "tables/observation:known_profiles": "the facts are read again: tests/unit/tables/test_unreadable_tables.py",
    "web/tables:_pins": "tests/unit/web/test_api.py",
    "web/streams:of_view": "tests/unit/web/test_api.py",
}
"""Loops whose failing item is tested, or explained, elsewhere."""
NAMES = ("a", "odd", "z")
Seen = Mapping[str, Any]


class Stand:
    """Three streams and three tables, of which the one named `odd` fails wherever a test says."""

    def __init__(self, connect: Connect, runtime: Runtime, backend: LocalBackend, project: Project) -> None:
        self.connect, self.runtime, self.backend, self.project = connect, runtime, backend, project

    @property
    def facts(self) -> observe.Facts:
        with self.connect() as connection:
            return observe.read(connection)

    @property
    def url(self) -> str:
        return self.runtime.registry_url_file.read_text()

    def reconcile(self) -> reconcile.Summary:
        return reconcile.reconcile_once(self.connect, self.runtime, self.backend, holder="test", startup_grace_s=0)


def plan(stand: Stand) -> None:
    made = decisions.plan(observe.observed_state(stand.facts, [], None))
    assert [item.driver for item in made.decisions] == list(NAMES)


def carried_out(stand: Stand) -> None:
    done = stand.reconcile().done
    assert ("odd", "failed") in {(item.driver, item.act) for item in done}
    assert {("a", "launched"), ("z", "launched")} <= {(item.driver, item.act) for item in done}


def unknown(stand: Stand) -> None:
    found = observe.verdicts(stand.facts, [])
    assert "RuntimeError" in found["odd"].why


def open_incidents(stand: Stand) -> None:
    with stand.connect() as connection:
        incidents.of_streams(connection, stand.facts, dict.fromkeys(NAMES, UNKNOWN))
    with stand.connect() as connection:
        assert {("stream", "a"), ("stream", "z")} <= set(incident_rows.open_ones(connection))


def reports(stand: Stand) -> None:
    with stand.connect() as connection:
        connection.execute(update(stream_rows).values(state="stalled"))
        assert [item.stream for item in due.due(connection)] == ["a", "z"]


def entries(stand: Stand) -> None:
    rows, odd = document.entries_of(observe_all(stand.connect, stand.backend))
    assert ([row["id"] for row in rows], odd) == (list(NAMES), ["odd"])


def health(stand: Stand) -> None:
    rows = run.health(stand.runtime, stand.project)["tables"]
    assert [row["table"] for row in rows] == ["nyc.a", "nyc.odd", "nyc.z"]
    assert [bool(row["error"]) for row in rows] == [False, True, False]


def observed(stand: Stand) -> None:
    found = run.observe(stand.runtime, stand.project)
    assert list(found["errors"]) == ["nyc.odd"]
    assert [row["table"] for row in found["tables"]] == ["nyc.a", "nyc.z"]


def matching(stand: Stand) -> None:
    plans = run.matching(stand.runtime, stand.project, "nyc.*")
    assert [bool(plan.get("error")) for plan in plans] == [False, True, False]


def proofs(stand: Stand) -> None:
    found = status.proof_status(stand.runtime, stand.url, stand.project)
    assert "cannot be looked at" in next(each.error for each in found if each.table == "nyc.odd")
    assert len(found) == len(NAMES)


def dry_runs(stand: Stand) -> None:
    found = dry_run.due_of(stand.runtime, stand.url, stand.project)
    assert "cannot be looked at" in next(each.why for each in found if each.table == "nyc.odd")
    assert len(found) == len(NAMES)


def within(act: Callable[[Any, observe.Facts], object]) -> Callable[[Stand], None]:
    """The loop in a transaction, with the facts."""

    def loop(stand: Stand) -> None:
        with stand.connect() as connection:
            act(connection, stand.facts)

    return loop


UNKNOWN = observe.Verdict(observe.State.UNKNOWN, "not known")
LOOPS: dict[str, tuple[Any, str, Callable[[Stand], None]]] = {
    "supervision/observe:verdicts": (observe, "_judged", unknown),
    "supervision/observe:_stuck": (observe, "_stuck_driver", lambda stand: observe._stuck(stand.facts, [])),
    "supervision/decide/reconcile:plan": (decisions, "_decide", plan),
    "supervision/reconcile:_pass": (act.Actor, "_launch", carried_out),
    "supervision/incidents:ask": (
        incidents, "_needs", within(lambda _, facts: incidents.ask(facts, RUNTIME[0], dict.fromkeys(NAMES, UNKNOWN))),
    ),
    "supervision/incidents:of_streams": (incidents, "_of_stream", open_incidents),
    "supervision/incidents:of_state": (incidents, "_grown", within(incidents.of_state)),
    "supervision/incidents:of_late": (observe.Facts, "late", within(incidents.of_late)),
    "supervision/stabilization:trials": (stabilization, "_trial", within(stabilization.trials)),
    "supervision/stabilization:stabilize": (stability, "judge", within(stabilization.stabilize)),
    "supervision/announce:decide": (announce, "_of_stream", within(lambda _, facts: announce.decide(facts, {}))),
    "supervision/report/due:due": (due, "_due", reports),
    "supervision/report/document:entries_of": (document, "entry", entries),
    "supervision/check_requests:decide": (
        observe.Facts, "table", within(lambda _, facts: check_requests.decide(facts, {"nyc.a"}, {}, {})),
    ),
    "tables/run:_each": (run, "_health", health),
    "tables/run:observe": (run, "_pressure", observed),
    "tables/run:matching": (run, "_look_at", matching),
    "quality/results/status:_standing": (status, "observe", proofs),
    "quality/runs/dry_run:_planned": (dry_run, "observe", dry_runs),
}  # fmt: skip
"""Loop -> what looks at one item, and the loop itself."""
RUNTIME: list[Runtime] = []


def item_in(given: object, depth: int = 4) -> str | None:
    """The item that arguments are about: a stream, a driver or a table of the stand."""
    if isinstance(given, str):
        name = given.removeprefix("nyc.")
        return name if name in NAMES else None
    if not depth or isinstance(given, observe.Facts | MaintenanceContext):
        return None
    parts: Any = given if isinstance(given, tuple | list) else getattr(given, "__dict__", {}).values()
    return next((item for part in parts if (item := item_in(part, depth - 1)) is not None), None)


@pytest.mark.parametrize("loop", list(LOOPS))
def test_an_item_that_fails_stops_no_other(loop: str, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, go = LOOPS[loop]
    RUNTIME[:] = [stand.runtime]
    looked: list[str | None] = []
    original = getattr(owner, name)

    def fail(*given: Any, **named: Any) -> Any:
        item = item_in(given)
        looked.append(item)
        if item == "odd":
            raise RuntimeError("cannot be looked at")
        return original(*given, **named)

    monkeypatch.setattr(owner, name, fail)
    go(stand)
    assert {"a", "odd", "z"} <= set(looked)


def test_every_loop_over_items_is_in_a_table_here() -> None:
    found = set()
    for file in SOURCES.rglob("*.py"):
        if file.name == "boundary.py":
            continue
        text = file.read_text(encoding="utf-8")
        if "attempt(" not in text and "_alone(" not in text:  # to walk every module takes long
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _attempts(node):
                found.add(f"{file.relative_to(SOURCES).with_suffix('')}:{node.name}")
    assert found == {*LOOPS, *ELSEWHERE}


def _attempts(function: ast.AST) -> bool:
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(isinstance(call, ast.Name) and call.id in ("attempt", "_alone") for call in calls)


@pytest.fixture
def stand(
    connected: Connect,
    runtime: Runtime,
    backend: LocalBackend,
    deployed: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stand]:
    for name in NAMES:
        deployed(name, driver=name)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=runtime.lake.warehouse)
    catalog.create_namespace("nyc")
    (tmp_path / "expectations").mkdir()
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    for name in NAMES:
        catalog.create_table(f"nyc.{name}", Schema(NestedField(1, "id", LongType())))
        check = "{type: expect_column_to_exist, kwargs: {column: id}}"
        suite = f"table: nyc.{name}\nowner: me\nexpectations:\n  - {check}\n"
        (tmp_path / "expectations" / f"nyc.{name}.yaml").write_text(suite)
    monkeypatch.setattr(MaintenanceContext, "catalog", catalog)
    yield Stand(connected, runtime, backend, Project(tmp_path))
    catalog.close()
