"""Tables and checkpoints on an object store: what a project says of them."""

from __future__ import annotations

import pytest

from lakeward.connectors.iceberg.catalog import pyiceberg_properties, spark_conf
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Lake, Project
from lakeward.spec.read.loader import load_settings

GOOD = "catalog: {warehouse: s3://lake/warehouse, connection: lakeward_s3}\ncheckpoints: s3a://lake/checkpoints\n"
DELTA = (
    "owner: me\nsource: {kafka: {topics: [t], max_offsets_per_trigger: 1}}\ntransform: {sql: SELECT * FROM source}\n"
    "sink: {delta: {table: a.b}}\ntrigger: {every: 10s}\n"
)


def test_both_spellings_become_the_one_each_reader_wants(project):
    loaded = project({"conf/lakeward.yaml": GOOD})
    assert loaded.ok, loaded.problems
    settings = loaded.settings
    assert (settings.catalog.warehouse.iceberg, settings.checkpoints.hadoop) == (
        "s3://lake/warehouse", "s3a://lake/checkpoints",
    )  # fmt: skip
    assert settings.catalog.connection == "lakeward_s3"


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("catalog: {warehouse: /w}", "catalog.warehouse", "s3://BUCKET/FOLDER"),
        ("catalog: {warehouse: 's3://lake/w/'}", "catalog.warehouse", "without a slash at its end"),
        ("checkpoints: hdfs://a/b", "checkpoints", "s3://BUCKET/FOLDER"),
        ("catalog: {warehouse: s3://lake/w}\ncheckpoints: s3a://lake/w/c", "checkpoints", "taken for orphan files"),
        ("catalog: {warehouse: s3://lake/w}\ncheckpoints: s3://lake/w", "checkpoints", "taken for orphan files"),
    ],
)
def test_a_place_that_cannot_be_is_refused(project, text, at, words):
    problems = project({"conf/lakeward.yaml": text}).problems
    assert [(problem.path, words in problem.message) for problem in problems] == [(at, True)], problems


@pytest.mark.parametrize("uri", ["jdbc:sqlite:/w/catalog.db?journal_mode=WAL", "sqlite:////w/catalog.db"])
def test_a_catalog_of_sqlite_is_refused_with_the_reason(project, uri):
    [problem] = project({"conf/lakeward.yaml": f"catalog: {{properties: {{type: jdbc, uri: '{uri}'}}}}"}).problems
    assert problem.path == "catalog.properties"
    assert problem.message.startswith(
        f"the catalog cannot be a file of SQLite: uri is {uri.split('?')[0]}: SQLite lets"
    )
    with pytest.raises(SpecError, match="database is locked"):
        spark_conf(Lake(warehouse="/w", properties={"uri": uri}))
    with pytest.raises(SpecError, match="database is locked"):
        pyiceberg_properties(Lake(warehouse="/w", properties={"uri": uri}))
    text = f"drivers: {{d: {{spark: {{spark.sql.catalog.lake.uri: '{uri}'}}}}}}"
    assert "catalogs are set in `catalog:`" in project({"conf/lakeward.yaml": text}).problems[0].message


def test_a_key_in_a_place_is_refused_and_not_repeated(project):
    problems = project({"conf/lakeward.yaml": "catalog: {warehouse: 's3://k:s3cret@lake/w'}"}).problems
    assert problems
    assert "s3cret" not in str(problems)


def test_a_neighbour_of_the_warehouse_is_no_part_of_it(project):
    text = "catalog: {warehouse: s3://lake/w}\ncheckpoints: s3a://lake/w2"
    assert project({"conf/lakeward.yaml": text}).ok


def test_delta_tables_may_be_there(project):
    loaded = project({"conf/lakeward.yaml": GOOD, "conf/streams/s.yaml": DELTA})
    assert loaded.ok, loaded.problems


def test_whoever_would_go_wrong_by_the_defaults_is_reported(project, tmp_path):
    loaded = project({"conf/lakeward.yaml": "catalog: {warehouse: s3:/lake}"})
    assert not loaded.ok
    with pytest.raises(SpecError, match="1 problem") as told:
        load_settings(Project(tmp_path))
    assert "catalog.warehouse" in told.value.why or "lakeward.yaml" in told.value.why
