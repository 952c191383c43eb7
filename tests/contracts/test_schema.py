"""The JSON Schemas for editors are current, valid, and agree with the loader about the files that are shipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from lakeward.cli.init import create
from lakeward.platform.runtime import Project
from lakeward.spec.docs import schema
from lakeward.spec.read.loader import load_project

ROOT = Path(__file__).parents[2]
SHIPPED = {
    **{f"conf/streams/{name}.yaml": "stream" for name in ("flights", "departures_hourly", "delay_alerts")},
    "conf/examples/weather.yaml": "stream",
    "conf/tables.yaml": "tables",
    "conf/lakeward.yaml": "lakeward",
    "expectations/nyc.flights.yaml": "suite",
    "expectations/nyc.departures_hourly.yaml": "suite",
}


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((ROOT / "docs" / "reference" / f"{name}.schema.json").read_text()))


@pytest.mark.parametrize("name", schema.FILES)
def test_the_written_schema_is_current(name):
    file = ROOT / "docs" / "reference" / f"{name}.schema.json"
    assert file.read_text() == schema.text(name), "make schemas"
    Draft202012Validator.check_schema(json.loads(file.read_text()))


def test_the_reference_page_is_current():
    file = ROOT / "docs" / "reference" / schema.REFERENCE
    assert file.read_text() == schema.page(schema.schema, schema.FILES), "make schemas"


@pytest.mark.parametrize(("file", "name"), SHIPPED.items())
def test_shipped_files_name_their_schema_and_fit_it(file, name):
    text = (ROOT / file).read_text()
    hint = next(line for line in text.splitlines() if line.startswith("# yaml-language-server: $schema="))
    assert ((ROOT / file).parent / hint.partition("=")[2]).resolve() == ROOT / "docs/reference" / f"{name}.schema.json"
    assert list(validator(name).iter_errors(YAML(typ="safe").load(text))) == []


@pytest.mark.parametrize(
    "text",
    [
        "sink: {iceberg: {table: n.t}}",  # no source
        "source: {kafka: {topics: [t], max_offsets_per_trigger: 5}}",  # no sink
        "source: {kafka: {topics: [t]}}\nsink: {iceberg: {table: n.t}}",  # no limit
        "source: {}\nsink: {iceberg: {table: n.t}}",
        "source: {kafka: {topics: [t], max_offsets_per_trigger: 5}}\nsink: {iceberg: {table: n}}",
        "source: {kafka: {topics: [t], max_offsets_per_trigger: 5}}\nsink: {iceberg: {table: n.t}}\nx: 1",
        "source: {kafka: {topics: [t], max_offsets_per_trigger: 5}}\nsink: {kafka: {topic: t}}\ntrigger: {every: 5}",
    ],
)
def test_an_editor_marks_what_the_loader_refuses(text):
    assert list(validator("stream").iter_errors(YAML(typ="safe").load(text)))


def test_every_key_says_what_it_is_for():
    unsaid = []
    for name in schema.FILES:
        made = schema.schema(name)
        for kind, definition in {"": made, **made.get("$defs", {})}.items():
            if not definition.get("description"):
                unsaid.append(f"{name}: {kind or 'the file'}")
    assert unsaid == []


def test_a_new_project_is_in_order_and_carries_current_schemas_and_dags(tmp_path):
    made = create(tmp_path / "mylake")
    loaded = load_project(Project((tmp_path / "mylake").resolve()))
    assert [problem.text() for problem in loaded.problems] == []
    for dag in (ROOT / "dags").glob("*.py"):
        assert f"dags/{dag.name}" in made, f"copy {dag.name} to src/lakeward/templates/dags/{dag.name}.txt"
        assert (tmp_path / "mylake" / "dags" / dag.name).read_text() == dag.read_text()
    for name in schema.FILES:
        assert (tmp_path / "mylake/conf/.schemas" / f"{name}.schema.json").read_text() == schema.text(name)
