"""What the streams of a project must be together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.platform.runtime import Project
from lakeward.spec.checks.project import stream_findings
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.loader import load_project


def stream(name: str, mode: str, table: str = "ns.t") -> StreamSpec:
    sink: dict[str, Any] = {"table": table, "mode": mode}
    if mode == "upsert":
        sink |= {"keys": ["id"], "order_by": "at"}
    return StreamSpec.model_validate({
        "id": name, "owner": "o", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 10}},
        "decode": {"json": "id INT, at TIMESTAMP"}, "sink": {"iceberg": sink},
    })  # fmt: skip


def found(*streams: StreamSpec) -> list[tuple[str, str]]:
    return [(each.owner, each.message) for each in stream_findings(streams, ()) if each.path[-1] == "mode"]


@pytest.mark.parametrize("mode", ["upsert", "complete"])
def test_a_second_writer_beside_one_that_changes_rows_is_refused(mode: str) -> None:
    [(owner, message)] = found(stream("changes", mode), stream("appends", "append"), stream("else", "append", "ns.u"))
    assert owner == "changes"
    assert "appends writes ns.t too" in message
    assert {owner for owner, _ in found(stream("one", mode), stream("two", mode))} == {"one", "two"}


def test_several_streams_may_append_to_one_table() -> None:
    assert found(stream("one", "append"), stream("two", "append")) == []
    assert found(stream("one", "upsert")) == []


def test_a_table_has_one_format_and_one_partitioning() -> None:
    def delta(name: str, *fields: str) -> StreamSpec:
        document = stream(name, "append").model_dump(mode="json", by_alias=True, exclude_unset=True)
        sink = {"delta": {"table": "ns.t", "partition_by": list(fields)}}
        return StreamSpec.model_validate({**document, "sink": sink})

    def said(*streams: StreamSpec) -> list[str]:
        return [each.message for each in stream_findings(streams, ()) if each.path[0] == "sink"]

    assert said(stream("one", "append"), delta("two")) == ["one makes ns.t as iceberg: a table has one format"]
    assert said(delta("one", "id"), delta("two")) == ["one creates ns.t with another partitioning: id"]
    assert said(delta("one", "id"), delta("two", "id")) == []


def test_a_connection_that_is_not_known_here_is_reported_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    (tmp_path / "conf" / "streams" / "a.yaml").write_text(
        "owner: x\nsource:\n  kafka: {topics: [t], max_offsets_per_trigger: 10, connection: orders}\n"
        "decode: {json: 'year INT'}\nsink: {iceberg: {table: a.b}}\n"
    )
    assert load_project(Project(tmp_path)).problems == (), "nobody knows what there is"
    assert load_project(Project(tmp_path), ["orders"]).problems == ()
    [problem] = load_project(Project(tmp_path), ["other", "lakeward_kafka"]).problems
    assert problem.text().startswith("conf/streams/a.yaml:3:")
    assert "there is no Kafka connection orders here; known: lakeward_kafka, other" in problem.message
    assert problem.severity == "warning", "Airflow may have it: what it knows comes here when a stream names it"
