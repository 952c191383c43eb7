"""The sink that a spec names: its class, and what its writer is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.commit_protocol.upsert import ByKey
from lakeward.connectors.delta import change as delta
from lakeward.connectors.iceberg import change as iceberg
from lakeward.engine.assignment import Assignment
from lakeward.engine.sinks.at_least_once import AtLeastOnceSink, RealTimeSink
from lakeward.engine.sinks.choose import choose
from lakeward.engine.sinks.delta import DeltaStreamSink
from lakeward.engine.sinks.exact import ExactSink
from lakeward.engine.sinks.files import FilesStreamSink
from lakeward.engine.sinks.iceberg import IcebergStreamSink
from lakeward.engine.sinks.postgres import PostgresStreamSink
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Database, Lake, Runtime

UPSERT = {"mode": "upsert", "keys": ["k"], "order_by": "at"}


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    where = Database(host="h", port=1, database="d", user="u")
    return Runtime(
        registry_url_file=tmp_path / "url",
        pgpass=tmp_path / "pgpass",
        lake=Lake(warehouse=str(tmp_path / "lake")),
        kafka={"kafka_default": "127.0.0.1:1"},
        postgres={"there": where},
        checkpoints=str(tmp_path / "checkpoints"),
        drivers=tmp_path / "drivers",
        jars=tmp_path / "jars",
    )


def made(runtime: Runtime, sink: dict[str, Any], **more: Any) -> Any:
    document = {
        "id": "flights", "owner": "o", "sink": sink, "lineage": "none", "transform": {"sql": "SELECT 1 AS k"},
        "sources": {"left": {"rate": {}}, "right": {"rate": {}}}, "trigger": {"every": "1s"}, **more,
    }  # fmt: skip
    wanted = Assignment("flights", 7, document, "/checkpoint")
    session: Any = None  # nothing is started
    return choose(session, wanted, runtime, lambda: {"t": "id"}, lambda: None, {"left": str.upper})


@pytest.mark.parametrize(
    ("sink", "kind", "mode", "change"),
    [
        ({"iceberg": {"table": "n.t"}}, IcebergStreamSink, "append", iceberg.Append()),
        ({"iceberg": {"table": "n.t", "mode": "complete"}}, IcebergStreamSink, "complete", iceberg.Replace()),
        (
            {"iceberg": {"table": "n.t", "delete_when": "gone", **UPSERT}},
            IcebergStreamSink, "upsert", iceberg.Upsert(("k",), "at", "gone"),
        ),
        ({"delta": {"table": "n.t"}}, DeltaStreamSink, "append", delta.Append()),
        ({"delta": {"table": "n.t", "mode": "complete"}}, DeltaStreamSink, "complete", delta.Replace()),
        (
            {"delta": {"table": "n.t", "delete_when": "gone", **UPSERT}},
            DeltaStreamSink, "upsert", delta.Upsert(("k",), "at", "gone"),
        ),
        ({"postgres": {"connection": "there", "table": "n.t"}}, PostgresStreamSink, "append", None),
        (
            {"postgres": {"connection": "there", "table": "n.t", **UPSERT}},
            PostgresStreamSink, "upsert", ByKey(("k",), "at"),
        ),
        ({"files": {"path": "/out", "format": "csv", "partition_by": ["k"]}}, FilesStreamSink, "append", None),
    ],
)  # fmt: skip
def test_a_sink_with_a_position_gets_its_writer(
    runtime: Runtime, sink: dict[str, Any], kind: type[ExactSink[Any]], mode: str, change: Any
) -> None:
    found = made(runtime, sink)
    assert (type(found), found.exact) == (kind, True)
    writer = found.writer
    assert (writer.mode, getattr(writer, "change", getattr(writer, "upsert", None))) == (mode, change)
    assert (writer.stream, writer.query_name, writer.generation, writer.sources) == (
        "flights", "flights", 7, ["left", "right"],
    )  # fmt: skip
    assert (writer.table, writer.topic_ids(), dict(writer.canonical)) == (
        "/out" if "files" in sink else "n.t", {"t": "id"}, {"left": str.upper},
    )  # fmt: skip
    assert writer.patience_s == 0, "the batch waits, not the writer"


def test_a_writer_gets_the_place_it_writes_to(runtime: Runtime, tmp_path: Path) -> None:
    assert made(runtime, {"delta": {"table": "n.t"}}).writer.folder == tmp_path / "lake/delta.tables/n/t"
    writer = made(runtime, {"postgres": {"connection": "there", "table": "n.t"}}).writer
    assert (writer.database, writer.pgpass) == (runtime.postgres["there"], runtime.pgpass)
    files = made(runtime, {"files": {"path": "/out", "format": "csv", "partition_by": ["k"]}}).writer
    assert (files.path, files.format, files.partition_by) == (Path("/out"), "csv", ["k"])


@pytest.mark.parametrize("kind", ["iceberg", "delta", "postgres"])
@pytest.mark.parametrize("evolution", ["additive", "fixed"])
def test_the_table_may_be_changed_if_the_spec_says_so(runtime: Runtime, kind: str, evolution: str) -> None:
    more = {"connection": "there"} if kind == "postgres" else {}
    sink = made(runtime, {kind: {"table": "n.t", **more}}, schema={"evolution": evolution})
    assert sink.additive == (evolution == "additive")


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_a_sink_without_a_position_is_at_least_once(runtime: Runtime, mode: str) -> None:
    sink = made(runtime, {"console": {"mode": mode}})
    assert (type(sink), sink.exact, sink.output_mode) == (AtLeastOnceSink, False, mode)
    assert (sink.location(), sink.notes) == (None, ())


def test_a_real_time_query_gets_a_sink_that_only_counts(runtime: Runtime) -> None:
    sink = made(runtime, {"console": {"mode": "append"}}, trigger={"real_time": "5s"})
    assert (type(sink), sink.exact, sink.output_mode) == (RealTimeSink, False, "append")


def test_a_sink_that_is_not_built_is_refused(runtime: Runtime) -> None:
    with pytest.raises(SpecError) as refused:
        made(runtime, {"memory": {}})
    assert (refused.value.code, refused.value.why) == ("LW-2217", "sink memory is not built")
    with pytest.raises(SpecError) as refused:
        made(runtime, {"iceberg": {"table": "n.t", "commit": "native"}})
    assert (refused.value.code, refused.value.why) == ("LW-2218", "commit native is not built")
    with pytest.raises(SpecError, match="PostgreSQL connection 'elsewhere' does not exist"):
        made(runtime, {"postgres": {"connection": "elsewhere", "table": "n.t"}})
