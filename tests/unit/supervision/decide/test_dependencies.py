from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.platform.runtime import Lake, Runtime
from lakeward.spec.model.settings import Driver
from lakeward.supervision.decide.dependencies import (
    MACHINE,
    Dependency,
    Kind,
    needs,
    of_its_driver,
    of_the_platform,
)


@pytest.fixture
def runtime() -> Runtime:
    return Runtime(
        registry_url_file=Path("/r"), lake=Lake(warehouse="/lake"), checkpoints="/checkpoints", drivers=Path("/d"),
        jars=Path("/j"), connect="127.0.0.1:15002",
    )  # fmt: skip


def test_a_stream_needs_its_brokers_its_catalog_and_its_stores(runtime) -> None:
    spec = {
        "sources": {"a": {"kafka": {"connection": "east"}}, "b": {"kafka": {"connection": "west"}}},
        "sink": {"iceberg": {"table": "nyc.flights"}},
    }
    assert needs(spec, runtime) == {
        Dependency(Kind.KAFKA, "east"), Dependency(Kind.KAFKA, "west"), Dependency(Kind.CATALOG, "catalog"),
        Dependency(Kind.STORE, "/lake"), Dependency(Kind.STORE, "/checkpoints"),
    }  # fmt: skip


def test_a_stream_into_kafka_needs_no_catalog_unless_it_has_quarantine(runtime) -> None:
    spec = {"sources": {"source": {"kafka": {"topics": ["t"]}}}, "sink": {"kafka": {"connection": "west"}}}
    assert {each.kind for each in needs(spec, runtime)} == {Kind.KAFKA, Kind.STORE}
    assert Dependency(Kind.KAFKA, "lakeward_kafka") in needs(spec, runtime)
    for beside in ("quarantine", "late"):
        assert Kind.CATALOG in {each.kind for each in needs({**spec, beside: {"table": "a.b"}}, runtime)}


def test_nobody_needs_the_connect_server_to_land(runtime) -> None:
    assert of_the_platform(runtime) == {Dependency(Kind.CONNECT, "127.0.0.1:15002")}
    assert of_the_platform(runtime.model_copy(update={"connect": None})) == frozenset()


def test_files_on_s3_are_a_store_of_their_own(runtime) -> None:
    files = {"path": "s3://in/new/*.json", "format": "text"}
    spec = {"sources": {"a": {"files": files}, "b": {"files": {"path": "/in"}}}, "sink": {"console": {}}}
    assert Dependency(Kind.STORE, "s3://in/new") in needs(spec, runtime)
    assert Dependency(Kind.STORE, "/in") not in needs(spec, runtime), "a folder of this machine is not asked"


@pytest.mark.parametrize(
    ("entry", "managers", "needed"),
    [
        ({}, None, None),
        ({"backend": "standalone", "master": "spark://h:7077"}, None, Dependency(Kind.MASTER, "spark://h:7077")),
        ({"backend": "yarn"}, "http://a:8088,http://b:8088", Dependency(Kind.YARN, "http://a:8088,http://b:8088")),
        ({"backend": "kubernetes", "image": "i"}, None, Dependency(Kind.KUBERNETES, MACHINE)),
        ({"backend": "kubernetes", "image": "i", "connection": "prod"}, None, Dependency(Kind.KUBERNETES, "prod")),
    ],
)
def test_a_driver_needs_what_its_cluster_is_asked_by(entry, managers, needed) -> None:
    assert of_its_driver(Driver.model_validate(entry), managers) == (set() if needed is None else {needed})


@pytest.mark.parametrize(
    ("spec", "catalogs"),
    [
        ({"sink": {"iceberg": {"table": "staging.sales.orders"}}}, {"s:1"}),
        ({"sink": {"iceberg": {"table": "sales.orders"}}}, {"catalog"}),
        (
            {"sink": {"iceberg": {"table": "staging.sales.orders"}}, "quarantine": {"table": "sales.bad"}},
            {"s:1", "catalog"},
        ),
        (
            {"sink": {"delta": {"table": "sales.orders"}}, "reference": {"n": {"iceberg": "staging.a.b"}}},
            {"s:1", "catalog"},
        ),
        ({"sink": {"kafka": {}}, "sources": {"t": {"iceberg": {"table": "staging.a.b"}}}}, {"s:1"}),
    ],
)
def test_a_stream_needs_the_catalogs_of_its_own_tables(runtime, spec, catalogs) -> None:
    staging = Lake(name="staging", warehouse="w", properties={"type": "rest", "uri": "http://s:1"})
    lake = runtime.lake.model_copy(update={"others": (staging,)})
    found = needs(spec, runtime.model_copy(update={"lake": lake}))
    assert {each.name for each in found if each.kind is Kind.CATALOG} == catalogs
    assert (Dependency(Kind.STORE, "/lake") in found) == ("catalog" in catalogs)
