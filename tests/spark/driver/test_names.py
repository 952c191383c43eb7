"""Streams with names of every kind that a sink allows: landed, quarantined, audited, erased from, restored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from drawn_names import Drawn, stream
from moved_rig import Registry, accepted, deployed
from seeds import seed

from lakeward.cli.streams.audit import audit
from lakeward.connectors.delta import location
from lakeward.connectors.postgres import connection
from lakeward.connectors.postgres.name import Name
from lakeward.operations.erase import plan as planning
from lakeward.operations.erase.erase import Erase
from lakeward.operations.erase.plan import Scope
from lakeward.operations.request import Approval, Request
from lakeward.operations.runner import Runner
from lakeward.platform.runtime import Database
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.names import name_parts
from lakeward.spec.sql.statements import quote, quote_table

pytestmark = pytest.mark.timeout(1800)  # a bound for a hang; a busy machine may need minutes
FIXED = [
    Drawn(
        "iceberg", 'n{}.eu-west.`o\'clock ${{spark.app.name}} 100% v1.2 ``x`` "y" \\z😀`', "a.b_c-{}",
        ("geo.`lat`", "sel'ect ${spark.app.name} 100%"),
    ),
    Drawn("postgres", 'n{}\'"% x.`v1.2 "y" 100%`', "A_b.{}", ('100% "n"', "o'clo.ck\\")),
    Drawn("delta", "n{}.2024", "_{}", ("geo.`lat`", "o'clock%")),
]  # fmt: skip


@pytest.fixture
def drive(
    lab: Any, postgres: Any, database: str, registry: Registry, operator: Runner, catalog: Any
) -> Iterator[Callable[[Drawn], None]]:
    where = Database(host=postgres.host, port=postgres.port, database=database, user=postgres.user)
    lab.runtime = lab.runtime.model_copy(update={"postgres": {"there": where}, "pgpass": postgres.pgpass})
    operator = replace(operator, runtime=lab.runtime)
    tables: list[tuple[str, ...]] = []

    def run(names: Drawn) -> None:
        number, text = names.columns
        sink: dict[str, Any] = {"table": names.table}
        if names.sink == "iceberg":
            sink["partition_by"] = [f"bucket(2, {quote(number)})"]
        elif names.sink == "delta":
            sink["partition_by"] = [number]
        else:
            sink |= {"connection": "there", "mode": "upsert", "keys": [number], "order_by": "_kafka_offset"}
        topic = lab.kafka.create_topic(names.topic)
        document = lab.spec(
            topic, id=f"s{uuid4().hex[:8]}", sink={names.sink: sink}, lineage="rows",
            decode={"json": f"{quote(number)} INT, {quote(text)} STRING"}, rules={"small": f"{quote(number)} < 90"},
        )  # fmt: skip
        spec = StreamSpec.model_validate(document)
        quarantine = StreamSpec.model_validate(document).quarantine
        assert quarantine is not None
        tables.append(name_parts(quarantine.table))
        if names.sink == "iceberg":
            tables.append(name_parts(names.table))
        wanted = lab.wanted(document)
        deployed(registry, document, wanted.checkpoint)
        lab.produce(topic, [*({number: n, text: f"t{n}"} for n in range(3)), {number: 97, text: "no"}, "{"])
        lab.run(document, 5)
        assert rows(names) == {(n, f"t{n}") for n in range(3)}
        seen = audit(lab.runtime, spec)
        told = {key: seen[key] for key in ("consumed", "landed", "quarantined", "missing", "duplicates")}
        assert told == {"consumed": 5, "landed": 3, "quarantined": 2, "missing": 0, "duplicates": 0}, names
        if names.sink != "iceberg":
            return
        scope = Scope(names.table, "_kafka_offset = 1")
        plan = planning.plan(operator, scope)
        operator.run(Erase(operator, Request(Erase.name, names.table, "x", approval=Approval("bob", plan.key)), scope))
        lab.produce(topic, [{number: 7, text: "t7"}])
        before = sum(each.consumed for each in lab.done)
        running = lab.starter().start(replace(accepted(registry, document["id"], wanted), document=document))
        lab.started.append(running)
        lab.until("the record", lambda: sum(each.consumed for each in lab.done) > before)
        assert running.stop(60)
        assert rows(names) == {(n, f"t{n}") for n in (0, 2, 7)}
        again = audit(lab.runtime, spec)
        assert (again["landed"], again["erased"], again["missing"], again["duplicates"]) == (3, 1, 0, 0), names

    def rows(names: Drawn) -> set[tuple[int, str]]:
        if names.sink == "postgres":
            with closing(connection.connect(where, postgres.pgpass, "test")) as held, held.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {Name.of(names.table).quoted}", None)
                at = [column.name for column in cursor.description]
                return {tuple(row[at.index(each)] for each in names.columns) for row in cursor.fetchall()}
        table = quote_table(names.table, "lake")
        if names.sink == "delta":
            table = location.by_path(location.folder_of(lab.runtime.lake, names.table))
        columns = ", ".join(map(quote, names.columns))
        return {tuple(row) for row in lab.spark.sql(f"SELECT {columns} FROM {table}").collect()}

    yield run
    for table in tables:
        with suppress(Exception):
            catalog.drop_table(table)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(
            each,
            id=each.sink,
            marks=pytest.mark.campaign(held_by="test_a_stream_of_any_names") if each.sink == "delta" else (),
        )
        for each in FIXED
    ],
)
def test_a_stream_of_any_names(drive: Callable[[Drawn], None], suffix: str, names: Drawn) -> None:
    drive(replace(names, table=names.table.format(suffix), topic=names.topic.format(suffix)))


@pytest.mark.campaign(held_by="test_a_stream_of_any_names")
def test_tables_that_differ_in_case_alone(drive: Callable[[Drawn], None], suffix: str) -> None:
    for table in ("Ab", "aB"):
        drive(Drawn("postgres", f"n{suffix}.{table}", f"{table}.{suffix}", ("N", "s")))


@pytest.mark.campaign
@pytest.mark.seeded
def test_streams_of_drawn_names(lab: Any, drive: Callable[[Drawn], None]) -> None:
    draw, failed = Random(seed(21)), []
    for turn in range(32):
        names = stream(draw, ("iceberg", "iceberg", "delta", "postgres")[turn % 4], uuid4().hex[:6])
        try:
            drive(names)
        except Exception as error:  # noqa: BLE001  # all names of a night are tried, and told together
            failed.append(f"{names}: {type(error).__name__}: {error}"[:1500])
            while lab.started:
                lab.started.pop().kill()
    assert failed == []
