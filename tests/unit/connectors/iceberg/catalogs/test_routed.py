"""Several catalogs as one: names, commits, and one that is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from structlog.testing import capture_logs

from lakeward.connectors.iceberg.catalogs.refusals import Away, Forbidden
from lakeward.connectors.iceberg.catalogs.routed import Further, Lakes, own
from lakeward.connectors.iceberg.qualified import prefix_of
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Lake, Project
from lakeward.tables.context import MaintenanceContext

ROWS = pa.table({"n": pa.array([1], pa.int64())})


def of(folder: Path, name: str) -> SqlCatalog:
    made = SqlCatalog(name, uri=f"sqlite:///{folder}/{name}.db", warehouse=str(folder / name))
    made.create_namespace("sales")
    made.create_table("sales.orders", ROWS.schema)
    return made


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[SqlCatalog, SqlCatalog]]:
    lake, staging = of(tmp_path, "lake"), of(tmp_path, "staging")
    yield lake, staging
    lake.close()
    staging.close()


def maintenance(folder: Path, lake: SqlCatalog, **further: Callable[[], Catalog]) -> MaintenanceContext:
    """Maintenance with `lake` and further catalogs, by what connects to them."""
    others = tuple(Lake(name=name, warehouse="w") for name in further)
    runtime: Any = SimpleNamespace(lake=Lake(warehouse=str(folder / "lake"), others=others))
    made = MaintenanceContext(runtime, Project(folder))
    made.__dict__["catalog"] = Lakes(lake, {name: Further(name, load) for name, load in further.items()})
    return made


@pytest.fixture
def site(tmp_path: Path, two: tuple[SqlCatalog, SqlCatalog]) -> MaintenanceContext:
    """Maintenance with `lake`, `staging`, and `away`, which does not answer."""

    def silent() -> Catalog:
        raise DependencyDown("The REST catalog does not answer", why="nothing listens", code="LW-3433")

    lake, staging = two
    return maintenance(tmp_path, lake, staging=lambda: staging, away=silent)


def test_a_name_of_three_parts_is_of_the_catalog_that_it_begins_with(
    site: MaintenanceContext, two: tuple[SqlCatalog, SqlCatalog]
) -> None:
    lake, staging = two
    table = site.load("staging.sales.orders")
    table.append(ROWS)
    table.append(ROWS)
    assert staging.load_table("sales.orders").scan().to_arrow().num_rows == 2
    assert lake.load_table("sales.orders").current_snapshot() is None
    assert (table.name(), prefix_of(table)) == (("staging", "sales", "orders"), "")
    assert site.load("staging.sales.orders").scan().to_arrow().num_rows == 2
    other = site.load("sales.orders")
    assert (other.name(), prefix_of(other), other.current_snapshot()) == (("sales", "orders"), "lake", None)


def test_a_stale_commit_to_a_further_catalog_is_refused(site: MaintenanceContext) -> None:
    first, second = site.load("staging.sales.orders"), site.load("staging.sales.orders")
    first.append(ROWS)
    unmoved = AssertRefSnapshotId(**{"ref": "main", "snapshot-id": None})
    change = SetPropertiesUpdate(updates={"a": "b"})
    with pytest.raises(CommitFailedException):
        site.catalog.commit_table(second, (unmoved,), (change,))
    site.catalog.commit_table(second.refresh(), (), (change,))
    assert (second.refresh().properties["a"], second.name()) == ("b", ("staging", "sales", "orders"))


def test_a_catalog_that_is_away_hides_its_tables_alone_and_no_file_is_deleted(site: MaintenanceContext) -> None:
    with capture_logs() as logs:
        assert site.names() == ["sales.orders", "staging.sales.orders"]
    assert [(each["namespace"], each["why"]) for each in logs] == [("away", "nothing listens")]
    for every in (site.pointers, lambda: site.names(every=True)):
        with pytest.raises(Away, match="Catalog away: The REST catalog does not answer"):
            every()
    with pytest.raises(DependencyDown):
        site.load("away.sales.orders")
    assert site.load("sales.orders") is not None


def test_the_tables_of_all_catalogs_are_owners_of_files(tmp_path: Path, two: tuple[SqlCatalog, SqlCatalog]) -> None:
    lake, staging = two
    pointers = maintenance(tmp_path, lake, staging=lambda: staging).pointers()
    assert set(pointers) == {("sales", "orders"), ("staging", "sales", "orders")}
    assert pointers[("sales", "orders")] is not None
    assert pointers[("staging", "sales", "orders")] is None, "only the loaded table tells"


def test_a_namespace_of_the_default_catalog_may_be_called_like_a_further_one(
    site: MaintenanceContext, two: tuple[SqlCatalog, SqlCatalog]
) -> None:
    lake, _ = two
    lake.create_namespace("staging")
    lake.create_table("staging.orders", ROWS.schema).append(ROWS)
    assert "staging.orders" in site.names()
    assert site.load("staging.orders").scan().to_arrow().num_rows == 1
    with pytest.raises(NoSuchTableError):
        site.catalog.load_table(("staging", "sales", "missing"))


def test_a_refused_privilege_is_not_a_catalog_that_is_away(two: tuple[SqlCatalog, SqlCatalog]) -> None:
    lake, _ = two

    def refusing() -> Catalog:
        raise Forbidden("The REST catalog refuses a privilege", code="LW-3434")

    with pytest.raises(Forbidden):
        Lakes(lake, {"staging": Further("staging", refusing)}).list_tables(("staging", "sales"))


def test_the_kind_of_a_catalog_is_that_of_the_table(two: tuple[SqlCatalog, SqlCatalog]) -> None:
    lake, staging = two
    both = Lakes(lake, {"staging": Further("staging", lambda: staging)})
    assert own(both, ("sales", "orders")) is lake
    assert own(both, ("staging", "sales", "orders")) is staging
    assert own(lake, ("staging", "sales", "orders")) is lake, "one catalog alone"
