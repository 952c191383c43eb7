"""Every table of a catalog is seen, in nested namespaces and with any name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from structlog.testing import capture_logs

from lakeward.connectors.delta import location
from lakeward.connectors.iceberg.catalogs.refusals import Forbidden
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Lake, Project
from lakeward.spec.sql.names import dotted, name_parts
from lakeward.tables.context import MaintenanceContext, namespaces
from lakeward.tables.facts import Thresholds
from lakeward.tables.guard.location_overlap import overlap_in_catalog
from lakeward.tables.observe.iceberg import table_facts

NAMES = [
    ("nyc", "flights"), ("eu", "nyc", "flights"), ("eu", "nyc", "deep", "er", "t"), ("a-b", "c d"), ("nyc", "v1.2"),
    ("nyc", "o'clock"), ("nyc", "ta`ck"), ("select", "größe"), ("nyc", "100%_x"),
]  # fmt: skip


@pytest.fixture
def site(tmp_path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "lake"))
    lake = Lake(warehouse=str(tmp_path / "lake"))
    made = MaintenanceContext(SimpleNamespace(lake=lake), Project(tmp_path))
    made.__dict__["catalog"] = catalog
    for *namespace, table in NAMES:
        catalog.create_namespace_if_not_exists(tuple(namespace))
        catalog.create_table((*namespace, table), Schema(NestedField(1, "id", LongType())))
    yield made
    catalog.close()


@pytest.mark.parametrize(("typed", "then"), [("c d", '"a-b.c d"'), ("flights", ""), ("nope", ""), ("v1.2", "")])
def test_a_name_without_its_namespace_is_no_table_and_the_one_that_was_meant_is_named(site, typed, then):
    with pytest.raises(SpecError, match="does not exist") as refused:
        site.load(typed)
    assert refused.value.next == f"lakeward tables health {then}".strip()


def test_all_tables_are_listed_and_loaded_by_the_listed_name(site):
    names = site.names()
    assert sorted(map(name_parts, names)) == sorted(NAMES)
    for name in names:
        facts = table_facts(site.load(name), lambda size, properties: Thresholds(1, 1, 1))
        assert facts.table == name
        assert site.delta(name) is None


def test_a_namespace_that_only_has_namespaces_is_gone_through(site):
    assert ("eu", "nyc", "deep") in namespaces(site.catalog)
    assert len(namespaces(site.catalog)) == len(set(namespaces(site.catalog)))


@pytest.mark.parametrize("name", ["nyc.missing", "a..b", "nyc.`v1", ""])
def test_what_is_no_table_is_said_with_the_tables_there_are(site, name):
    with pytest.raises(SpecError) as error:
        site.load(name)
    assert "nyc.`v1.2`" in error.value.why


@pytest.mark.parametrize("parts", NAMES)
def test_a_delta_table_has_the_name_it_is_listed_by(site, parts):
    site.catalog.drop_table(parts)
    lake = site.runtime.lake
    folder = location.folder_of(lake, dotted(parts))
    (folder / "_delta_log").mkdir(parents=True)
    [name] = location.tables_of(lake)
    assert location.folder_of(lake, name) == folder
    assert site.delta(name) == folder


def test_a_namespace_that_may_not_be_listed_hides_its_tables_only_and_no_file_is_deleted(site, monkeypatch):
    listed = site.catalog.list_tables

    def refusing(space):
        if tuple(space) == ("nyc",):
            raise Forbidden("The REST catalog refuses a privilege", code="LW-3434")
        return listed(space)

    monkeypatch.setattr(site.catalog, "list_tables", refusing)
    with capture_logs() as logs:
        assert {name_parts(name)[0] for name in site.names()} == {"eu", "a-b", "select"}
    assert [(each["log_level"], each["namespace"]) for each in logs] == [("warning", "nyc")]
    with pytest.raises(Forbidden):
        site.names(every=True)
    with pytest.raises(Forbidden):
        overlap_in_catalog(site, "eu.nyc.flights", str(site.load("eu.nyc.flights").location()))
    with pytest.raises(Forbidden):
        list(site._tables())


def test_a_namespace_is_warned_about_once_and_a_refused_first_list_is_an_error(site, monkeypatch):
    def refusing(space=()):
        if not space or tuple(space) == ("eu",):
            raise Forbidden("The REST catalog refuses a privilege", code="LW-3434")
        return []

    listed = site.catalog.list_namespaces
    monkeypatch.setattr(site.catalog, "list_namespaces", lambda space=(): refusing(space) if space else listed())
    monkeypatch.setattr(site.catalog, "list_tables", refusing)
    with capture_logs() as logs:
        assert site.names() == []
    assert [each["namespace"] for each in logs] == ["eu"], "neither its namespaces nor its tables may be listed"
    monkeypatch.setattr(site.catalog, "list_namespaces", refusing)
    with pytest.raises(Forbidden):
        site.names()
