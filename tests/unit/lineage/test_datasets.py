from __future__ import annotations

from dataclasses import replace

import pytest
from openlineage.client import facet_v2

from lakeward.lineage.datasets import Addresses, Dataset, Postgres, by_location, of_sink, of_source, of_table
from lakeward.lineage.events import table_facets
from lakeward.spec.model.sinks import Sink
from lakeward.spec.model.sources import Source

ADDRESSES = Addresses(
    brokers=lambda connection: "k1:9092, k2:9092" if connection == "lakeward_kafka" else None,
    postgres=lambda connection: Postgres("db", 5432, "shop") if connection == "shop" else None,
    catalog="lake",
    locations={"nyc.flights": "s3://lake/nyc/flights", "nyc.odd": "file:///lake/o%20dd"},
    formats={"nyc.flights": "iceberg", "nyc.odd": "delta"},
    project="/srv/project",
)


@pytest.mark.parametrize(
    ("location", "dataset"),
    [
        ("s3://lake/warehouse/nyc/flights", Dataset("s3://lake", "warehouse/nyc/flights")),
        ("s3a://lake/warehouse/nyc/flights/", Dataset("s3://lake", "warehouse/nyc/flights")),  # Hadoop's name for it
        ("file:///lake/a%20b", Dataset("file", "/lake/a b")),
        ("/lake/a%20b", Dataset("file", "/lake/a%20b")),  # a path, not a URI
        ("data/airlines.csv", Dataset("file", "/srv/project/data/airlines.csv")),
        ("abfss://c@a.dfs.core.windows.net/t", Dataset("abfss://c@a.dfs.core.windows.net", "t")),
    ],
)
def test_a_location_has_one_name(location: str, dataset: Dataset) -> None:
    assert by_location(location, "/srv/project") == dataset


def test_a_table_is_named_by_its_location_and_has_none_before_it_was_observed() -> None:
    assert of_table("nyc.flights", ADDRESSES) == Dataset("s3://lake", "nyc/flights", "nyc.flights", "iceberg", "lake")
    assert of_table("nyc.odd", ADDRESSES) == Dataset("file", "/lake/o dd", "nyc.odd", "delta", "spark_catalog")
    assert of_table("nyc.new", ADDRESSES) is None


def test_topics_of_a_pattern_are_those_that_the_offsets_name() -> None:
    source = Source.model_validate({"kafka": {"pattern": "f.*"}, "decode": {"json": "a INT"}})
    assert of_source(source, ("f1", "f2"), ADDRESSES) == (
        Dataset("kafka://k1:9092", "f1"),
        Dataset("kafka://k1:9092", "f2"),
    )


@pytest.mark.parametrize(
    ("sink", "datasets"),
    [
        (
            {"postgres": {"connection": "shop", "table": "orders"}},
            (Dataset("postgres://db:5432", "shop.public.orders"),),
        ),
        ({"postgres": {"connection": "shop", "table": "s.orders"}}, (Dataset("postgres://db:5432", "shop.s.orders"),)),
        ({"postgres": {"connection": "else", "table": "orders"}}, (None,)),
        ({"kafka": {"topic": "alerts", "value": "a"}}, (Dataset("kafka://k1:9092", "alerts"),)),
        ({"console": {}}, ()),
    ],
)
def test_a_sink_is_a_dataset_by_its_address(sink: dict[str, object], datasets: tuple[Dataset | None, ...]) -> None:
    assert of_sink(Sink.model_validate(sink), ADDRESSES) == datasets


def test_a_table_has_its_name_in_the_catalog_as_the_deployment_calls_it() -> None:
    found = of_table("nyc.flights", replace(ADDRESSES, catalog="prod"))
    assert found is not None
    symlinks = table_facets(found)["symlinks"]
    assert isinstance(symlinks, facet_v2.symlinks_dataset.SymlinksDatasetFacet)
    [name] = symlinks.identifiers
    assert (name.namespace, name.name) == ("prod", "nyc.flights")
