"""Names of tables, columns and topics in specs: what a system takes is accepted, all else is refused with its place."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from drawn_names import NO_TABLES, stream
from ruamel.yaml import YAML
from seeds import seed

from lakeward.platform.runtime import Project
from lakeward.platform.text import word
from lakeward.spec.model.table_layout import PartitionField
from lakeward.spec.model.table_names import DeltaTableName, PostgresTable, TableName
from lakeward.spec.model.types import Topic
from lakeward.spec.read.loader import Loaded, load_project
from lakeward.spec.sql.names import dotted, name_parts, namespace_of, with_suffix
from lakeward.spec.sql.statements import quote


def loaded(folder: Path, **sinks: object) -> Loaded:
    (folder / "conf/streams").mkdir(parents=True)
    for name, sink in sinks.items():
        document = {
            "owner": "ops", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 5}},
            "decode": {"json": "n INT"}, "transform": {"sql": "SELECT * FROM source"}, "sink": sink,
            "trigger": {"every": "10s"},
        }  # fmt: skip
        YAML(typ="safe").dump(document, folder / f"conf/streams/{name}.yaml")
    return load_project(Project(folder))


@pytest.mark.seeded
def test_names_that_a_system_takes_are_accepted(tmp_path: Path) -> None:
    draw = Random(seed(8))
    drawn = [stream(draw, ("iceberg", "delta", "postgres")[n % 3], f"u{n}") for n in range(60)]
    for names in drawn:
        kind = {"iceberg": TableName, "delta": DeltaTableName, "postgres": PostgresTable}[names.sink]
        assert str(kind(names.table)) == names.table
        assert Topic(names.topic)
        for column in names.columns:
            assert PartitionField(quote(column)).column == column
            assert PartitionField(f"bucket(4, {quote(column)})").sql == f"bucket(4, {quote(column)})"
    sinks = {f"s{n}": {"iceberg": {"table": each.table}} for n, each in enumerate(drawn) if each.sink == "iceberg"}
    found = loaded(tmp_path, **sinks)
    assert [problem.text() for problem in found.problems] == []
    for number, spec in enumerate(found.specs):
        assert spec.quarantine is not None and spec.sink.table is not None, number
        assert spec.quarantine.table == with_suffix(spec.sink.table, "_quarantine")


@pytest.mark.parametrize("text", NO_TABLES)
def test_what_is_no_table_is_refused_with_its_line_and_the_rule(tmp_path: Path, text: str) -> None:
    [problem] = loaded(tmp_path, s={"iceberg": {"table": text}}).problems
    assert (problem.file, problem.line is not None) == ("conf/streams/s.yaml", True)
    assert "namespace.table" in problem.text()


def test_a_delta_table_has_a_plain_name(tmp_path: Path) -> None:
    problems = loaded(tmp_path, a={"delta": {"table": "eu.nyc.t"}}, b={"delta": {"table": "nyc.t-1"}}).problems
    assert [problem.file for problem in problems] == ["conf/streams/a.yaml", "conf/streams/b.yaml"]


def test_delta_tables_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    found = loaded(tmp_path, a={"delta": {"table": "nyc.Ab"}}, b={"delta": {"table": "nyc.aB"}})
    assert [problem.file for problem in found.problems] == ["conf/streams/b.yaml"]
    assert "nyc.Ab" in found.problems[0].text()


@pytest.mark.parametrize(
    "text", ["a.b.c", "x" * 64, "lakeward_positions", "s.lakeward_positions", "ä" * 32, "a\nb", ""]
)
def test_what_is_no_table_of_postgresql_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PostgreSQL"):
        PostgresTable(text)


def test_two_spellings_are_one_table() -> None:
    assert TableName("nyc.`flights`") == TableName("nyc.flights")
    assert TableName("eu.nyc.`v1.2`").parts == ("eu", "nyc", "v1.2")
    assert (TableName("eu.nyc.t").namespace, TableName("eu.nyc.`v1.2`").name) == ("eu.nyc", "v1.2")


def test_a_table_beside_another_has_its_name_with_a_suffix() -> None:
    assert with_suffix("eu.nyc.`v1.2`", "_q") == "eu.nyc.`v1.2_q`"
    assert namespace_of("eu.nyc.`v1.2`") == "eu.nyc"
    assert name_parts(with_suffix(dotted(["a", "b`"]), "_q")) == ("a", "b`_q")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("nyc.flights", "nyc.flights"), ("nyc.my table", '"nyc.my table"'), ("nyc.o'clock", '"nyc.o\'clock"'),
        ("nyc.`v1.2`", "'nyc.`v1.2`'"), ("nyc.$x", "'nyc.$x'"), ("", '""'),
    ],
)  # fmt: skip
def test_a_name_is_one_word_of_a_command_line(text: str, wanted: str) -> None:
    import shlex

    assert word(text) == wanted
    assert shlex.split(word(text)) == [text]
