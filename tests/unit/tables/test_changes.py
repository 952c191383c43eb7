"""Tables are observed when something changed: a real catalog in PostgreSQL, a real registry, a real Delta log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from delta_log import add, commit, table
from pyiceberg.catalog import Catalog, load_catalog
from shared_files import deployment
from sqlalchemy import text

from lakeward.connectors.delta import location
from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import CATALOG, Project, Runtime
from lakeward.registry import waivers
from lakeward.registry.engine import connect
from lakeward.tables import changes
from lakeward.tables.changes import REPEAT_S, LastObservation, TableChanges, decide

ROWS = pa.table({"id": [1, 2, 3]})
NOW = datetime(2026, 11, 28, tzinfo=UTC)
EVERY_S = 300.0


def last(age_s: float, state: str | None = "same", next_at: datetime | None = None) -> LastObservation:
    return LastObservation(NOW - timedelta(seconds=age_s), age_s, state, next_at, frozenset())


@pytest.mark.parametrize(
    ("before", "state", "reason"),
    [
        (None, "same", "the tables have not been observed yet"),
        (last(299), "other", ""),
        (last(301), "same", ""),
        (last(301), "other", "tables changed"),
        (last(301), None, "the catalog does not say whether tables changed"),
        (last(301, None), "same", "tables changed"),
        (last(301, next_at=NOW), "same", "a table that waited is due"),
        (last(301, next_at=NOW + timedelta(seconds=1)), "same", ""),
    ],
)
def test_why_an_observation_is_due(before: LastObservation | None, state: str | None, reason: str) -> None:
    assert decide(before, lambda: state, EVERY_S, NOW) == reason


def test_the_catalog_is_not_queried_before_an_observation_may_follow() -> None:
    def state() -> str:
        raise AssertionError("queried")

    assert decide(last(10), state, EVERY_S, NOW) == ""


@pytest.fixture(scope="module")
def where(postgres, tmp_path_factory) -> Iterator[Runtime]:
    with deployment(postgres, tmp_path_factory.mktemp("changes")) as made:
        yield made


@pytest.fixture(scope="module")
def catalog(where: Runtime) -> Catalog:
    files = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    made = load_catalog(CATALOG, **files | pyiceberg_properties(where.lake, where.pgpass))
    made.create_namespace("nyc")
    made.create_table("nyc.flights", ROWS.schema)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.tables_file.parent.mkdir()
    made.expectations.mkdir()
    made.tables_file.write_text("policies: []\n")
    return made


@pytest.fixture
def connected(where: Runtime) -> changes.Connect:
    url = where.registry_url_file.read_text()
    return lambda: connect(url, where.pgpass)


@pytest.fixture
def state(where: Runtime, project: Project, connected: changes.Connect) -> Callable[[], str | None]:
    def read() -> str | None:
        with connected() as connection:
            return changes.state_of(connection, where, project)

    return read


def test_every_commit_is_another_state_and_reading_is_none(catalog: Catalog, state) -> None:
    known = [state(), state()]
    assert known[0] == known[1]
    loaded = catalog.load_table("nyc.flights")
    loaded.scan().to_arrow()
    assert state() == known[0]
    loaded.append(ROWS)
    known.append(state())
    loaded.transaction().set_properties({"a": "b"}).commit_transaction()
    known.append(state())
    catalog.create_table("nyc.other", ROWS.schema)
    known.append(state())
    catalog.rename_table("nyc.other", "nyc.renamed")
    known.append(state())
    catalog.drop_table("nyc.renamed")
    known.append(state())
    # A table that is dropped is the state of before: an observation between them, or none, finds the same tables.
    assert len(set(known[1:-1])) == len(known[1:-1])
    assert known[-1] == known[3]


def test_a_commit_to_a_delta_table_is_another_state(where: Runtime, catalog: Catalog, state) -> None:
    before = state()
    folder = location.folder_of(where.lake, "nyc.delta")
    commit(folder, 0, table())
    made = state()
    commit(folder, 1, add("a.parquet", 10))
    assert len({before, made, state()}) == 3


def test_what_people_say_about_tables_is_another_state(
    where: Runtime, catalog: Catalog, project: Project, connected: changes.Connect, state
) -> None:
    known = [state()]
    project.tables_file.write_text("policies: [{match: nyc.*, observe: 2m}]\n")
    known.append(state())
    (project.expectations / "nyc.flights.yaml").write_text("table: nyc.flights\n")
    known.append(state())
    with connected() as connection:
        until = datetime.now(UTC) + timedelta(hours=1)
        waivers.add(connection, "nyc.flights", "c1", "unique", author="me", reason="known", until=until)
    known.append(state())
    with connected() as connection:
        waivers.end(connection, "nyc.flights", "c1")
    assert len(set(known)) == len(known)
    assert state() == known[2]


def test_a_rest_catalog_has_no_such_state(where: Runtime, project: Project, connected: changes.Connect) -> None:
    rest = where.lake.model_copy(update={"properties": {"type": "rest", "uri": "http://127.0.0.1:1"}})
    with connected() as connection:
        assert changes.state_of(connection, where.model_copy(update={"lake": rest}), project) is None


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_change_is_said_once_and_again_if_no_observation_follows(
    where: Runtime, catalog: Catalog, project: Project, connected: changes.Connect, state
) -> None:
    clock = Clock()
    watched = TableChanges(connected, where, lambda: project, 0.0, clock)
    with connected() as connection:
        connection.execute(text("DELETE FROM ticks"))
    assert watched.poll() == ["the tables have not been observed yet"]
    clock.now += REPEAT_S
    with connected() as connection:
        changes.record(connection, state(), None, [], 1.0)
    assert watched.poll() == []
    catalog.load_table("nyc.flights").append(ROWS)
    assert watched.poll() == ["tables changed"]
    assert watched.poll() == []
    clock.now += REPEAT_S
    assert watched.poll() == ["tables changed"]
    with connected() as connection:
        changes.record(connection, state(), None, [], 1.0)
    catalog.load_table("nyc.flights").append(ROWS)
    assert watched.poll() == ["tables changed"], "a request is repeated late, another change is said at once"


def test_a_catalog_without_its_tables_has_no_state_yet(postgres, where: Runtime, project: Project, connected) -> None:
    empty = where.lake.model_copy(update={"database": postgres.create_database()})
    with connected() as connection:
        assert changes.state_of(connection, where.model_copy(update={"lake": empty}), project) is None


def test_without_the_catalog_nothing_is_said(where: Runtime, project: Project, connected: changes.Connect) -> None:
    away = where.model_copy(update={"lake": where.lake.model_copy(update={"port": 1})})
    with connected() as connection:
        changes.record(connection, "before", None, ["nyc.odd"], 1.0)
        with pytest.raises(DependencyDown, match="The catalog does not answer"):
            changes.state_of(connection, away, project)
        found = changes.newest(connection)
    assert found is not None
    assert (found.state, found.next_at, found.unread) == ("before", None, {"nyc.odd"})
    assert TableChanges(connected, away, lambda: project, 0.0).poll() == []
