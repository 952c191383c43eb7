"""Additive evolution: what the table takes, who is fenced by it, what a rollback leaves empty, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.delta import location
from lakeward.engine.sinks.choose import choose
from lakeward.platform.errors import Fenced, SpecError
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

FIRST = "n INT, s STRING, p STRUCT<a: INT, b: INT>"
SECOND = "n INT, extra STRING, p STRUCT<c: STRING, b: INT, a: INT>, s STRING"


class Died(RuntimeError):
    pass


def die() -> None:
    raise Died


class Stream:
    """One stream in one kind of table, started in one generation or another."""

    def __init__(self, lab: Any, kind: str) -> None:
        self.lab, self.kind, self.topic, self.table = lab, kind, lab.topic(), f"{lab.namespace}.t"
        folder = location.folder_of(lab.runtime.lake, self.table)
        self.sql = f"lake.{self.table}" if kind == "iceberg" else location.by_path(folder)

    def document(self, columns: str, evolution: str = "additive", **more: Any) -> dict[str, Any]:
        sink = {self.kind: {"table": self.table}}
        document: dict[str, Any] = self.lab.spec(
            self.topic, decode={"json": columns}, sink=sink, schema={"evolution": evolution}, lineage="rows"
        )
        return {**document, **more}

    def start(self, generation: int, columns: str, **more: Any) -> Any:
        wanted = replace(self.lab.wanted(self.document(columns, **more)), generation=generation)
        running = self.lab.starter().start(wanted)
        self.lab.started.append(running)
        return running

    def land(self, generation: int, columns: str, record: dict[str, Any], **more: Any) -> Any:
        """One record by one start; gives that start."""
        before = len(self.lab.done)
        self.lab.produce(self.topic, [record])
        running = self.start(generation, columns, **more)
        self.lab.until("the record", lambda: sum(done.consumed for done in self.lab.done[before:]) == 1)
        assert running.stop(60)
        return running

    def sink(self, generation: int, columns: str) -> Any:
        """The sink as a driver of its own holds it, looked at and not prepared yet."""
        own = self.lab.spark.newSession()
        wanted = replace(self.lab.wanted(self.document(columns)), generation=generation)
        found = choose(own, wanted, self.lab.runtime, dict, lambda: None, {})
        found.observe({})
        return found

    def rows(self) -> list[tuple[Any, ...]]:
        names = self.lab.spark.table(self.sql).columns
        wanted = [name for name in ("n", "s", "p.a", "p.b", "p.c", "extra") if name.split(".")[0] in names]
        if "extra" not in names:
            wanted.remove("p.c")
        return sorted(tuple(row) for row in self.lab.spark.table(self.sql).select(*wanted).collect())


def once(first: Callable[[], Any], then: Callable[[], Any]) -> Callable[[], None]:
    calls = iter([first])
    return lambda: next(calls, then)()


@pytest.mark.parametrize(
    "kind",
    [
        "iceberg",
        pytest.param(
            "delta",
            marks=pytest.mark.campaign(
                held_by="test_new_columns_come_with_their_generation_and_a_rollback_leaves_them_empty"
            ),
        ),
    ],
)
def test_new_columns_come_with_their_generation_and_a_rollback_leaves_them_empty(lab: Any, kind: str) -> None:
    stream = Stream(lab, kind)
    stream.land(1, FIRST, {"n": 1, "s": "one", "p": {"a": 1, "b": 10}})

    # Refused as long as the stream may not change the table; then killed before and after it did.
    with pytest.raises(SpecError) as refused:
        stream.start(2, SECOND, evolution="fixed")
    assert refused.value.why == "not in the table: extra, p.c"
    catalog = "lake" if kind == "iceberg" else "spark_catalog"
    assert f"ALTER TABLE `{catalog}`.`{lab.namespace}`.`t` ADD COLUMNS (`extra` STRING, `p`.`c`" in refused.value.next

    def disturb() -> None:
        lab.spark.sql(f"ALTER TABLE {stream.sql} SET TBLPROPERTIES ('a' = 'b')")
        if kind == "delta":  # nothing of it is tried again there
            die()

    with failpoints.on("before-evolve", once(disturb, die)), pytest.raises(Died):
        stream.start(2, SECOND)
    assert "extra" not in lab.spark.table(stream.sql).columns
    with failpoints.on("after-evolve", die), pytest.raises(Died):
        stream.start(2, SECOND)
    second = stream.land(2, SECOND, {"n": 2, "s": "two", "extra": "x", "p": {"c": "C", "b": 20, "a": 2}})
    assert second.notes == ()
    expected = [(1, "one", 1, 10, None, None), (2, "two", 2, 20, "C", "x")]
    assert stream.rows() == expected, "fields of a struct by name"

    back = stream.land(1, FIRST, {"n": 3, "s": "three", "p": {"a": 3, "b": 30}}, evolution="fixed")
    assert [note.split(" by ")[0] for note in back.notes] == ["column extra was added", "column p.c was added"]
    assert stream.rows() == [*expected, (3, "three", 3, 30, None, None)]

    with pytest.raises(SpecError) as dropped:
        stream.start(3, FIRST)
    assert dropped.value.why == "only in the table: extra, p.c"
    assert "NULL AS" in dropped.value.next
    stream.land(2, SECOND, {"n": 4, "extra": "y"})
    assert stream.rows()[-1] == (4, None, None, None, None, "y")


@pytest.mark.parametrize(
    "kind",
    [
        "iceberg",
        pytest.param(
            "delta",
            marks=pytest.mark.campaign(
                held_by="test_a_driver_of_the_older_generation_is_fenced_by_the_new_columns_alone"
            ),
        ),
    ],
)
def test_a_driver_of_the_older_generation_is_fenced_by_the_new_columns_alone(lab: Any, kind: str) -> None:
    stream = Stream(lab, kind)
    stream.land(1, FIRST, {"n": 1, "s": "one", "p": {"a": 1, "b": 10}})
    zombie = stream.sink(1, FIRST)
    at = zombie._observed.state.position
    end = {name: text.replace("1", "2") for name, text in at.end.items()}
    zombie.writer.running = lambda batch: RunningBatch(at.query_id, at.batch + 1, at.end, end, {})
    zombie.writer.stateful = False
    zombie.writer._own_attempts.append(at.attempt)  # it landed the newest batch itself
    rows = zombie.writer.session.table(stream.sql).where("n = 1")
    columns = lab.spark.table(stream.sql).drop("none").schema.jsonValue()
    columns["fields"].append({"name": "extra", "type": "string", "nullable": True, "metadata": {}})

    def evolve() -> None:
        newer = stream.sink(2, SECOND)
        newer.prepare(type(rows.schema).fromJson(columns), stateful=False)
        assert newer.writer._expected == newer.observe_table().state.raw, "what it landed last is what it finds"

    kept = rows.localCheckpoint()
    with failpoints.on("after-stage", once(evolve, lambda: None)), pytest.raises(Fenced):
        zombie.writer.land(kept, at.batch + 1)
    assert "extra" in lab.spark.table(stream.sql).columns
    assert stream.lab.spark.table(stream.sql).count() == 1


def test_types_are_widened_where_no_file_has_to_be_written_again(lab: Any) -> None:
    narrow, wide = "n INT, s STRING, d DECIMAL(5,2), l ARRAY<INT>, f FLOAT", "n BIGINT, s STRING, d DECIMAL(12,2), "
    stream, delta = Stream(lab, "iceberg"), Stream(lab, "delta")
    stream.land(1, narrow, {"n": 1, "d": 1.25, "l": [1], "f": 0.5})
    big = 3_000_000_000
    stream.land(2, wide + "l ARRAY<BIGINT>, f DOUBLE", {"n": big, "d": 1234567.25, "l": [big], "f": 0.1})
    found = {row["n"]: (float(row["d"]), row["l"], row["f"]) for row in lab.rows()}
    assert found == {1: (1.25, [1], 0.5), big: (1234567.25, [big], 0.1)}
    assert dict(lab.spark.table(stream.sql).dtypes)["d"] == "decimal(12,2)"
    back = stream.land(1, narrow, {"n": 5, "d": 2.5, "l": [5], "f": 1.5})
    assert back.notes == ()
    assert len(lab.rows()) == 3
    with pytest.raises(SpecError, match="f is STRING, the table has DOUBLE"):
        stream.start(3, wide + "l ARRAY<BIGINT>, f STRING")

    lab.spark.sql(f"DROP TABLE {stream.sql} PURGE")
    lab.spark.sql(f"CREATE TABLE {delta.sql} (n INT, s STRING) USING delta "
                  "TBLPROPERTIES ('delta.feature.domainMetadata' = 'supported')")  # fmt: skip
    delta.topic = lab.topic()
    document = {**delta.document("n BIGINT, s STRING"), "transform": {"sql": "SELECT n, s FROM source"}}
    with pytest.raises(SpecError, match="enableTypeWidening"):
        lab.start({**document, "lineage": "none", "id": "other"})
