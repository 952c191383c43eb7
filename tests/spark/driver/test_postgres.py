"""A stream into PostgreSQL, as the driver runs it, and what is known of it without a driver."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.streams.audit import audit
from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.postgres import connection, evolve, table
from lakeward.connectors.postgres.name import Name
from lakeward.engine import analysis
from lakeward.engine.assignment import Assignment
from lakeward.engine.sinks.choose import choose
from lakeward.platform.errors import Blocked, Fenced, SpecError
from lakeward.platform.runtime import Database
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision import probes
from lakeward.supervision.decide.dependencies import Dependency, Kind, needs
from lakeward.supervision.report import sources
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


@pytest.fixture
def served(lab: Any, postgres: Any, database: str) -> Any:
    """The lab with a connection `there` to an empty database, and `sql` on it."""
    where = Database(host=postgres.host, port=postgres.port, database=database, user=postgres.user)
    lab.runtime = lab.runtime.model_copy(update={"postgres": {"there": where}, "pgpass": postgres.pgpass})

    def sql(statement: str) -> list[tuple[Any, ...]]:
        with closing(connection.connect(where, postgres.pgpass, "test")) as held, held.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    lab.sql = sql
    return lab


def _document(lab: Any, topic: str, **more: Any) -> dict[str, Any]:
    document: dict[str, Any] = lab.spec(topic, sink={"postgres": {"connection": "there", "table": "t"}})
    return {**document, "lineage": "rows", **more}


class Died(RuntimeError):
    pass


def die() -> None:
    raise Died


@pytest.mark.parametrize(
    "steps",
    [
        ("before-return",),
        pytest.param(
            ("after-stage", "after-publish", "before-return"),
            marks=pytest.mark.campaign(held_by="test_a_stream_lands_in_postgresql_once_and_its_bad_rows_in_quarantine"),
        ),
    ],
    ids=["a step", "each step"],
)
def test_a_stream_lands_in_postgresql_once_and_its_bad_rows_in_quarantine(
    served: Any, tmp_path: Path, steps: tuple[str, ...]
) -> None:
    topic = served.topic()
    served.produce(topic, [{"n": 1, "s": "a"}, "junk", {"n": 2, "s": "b"}])
    document = _document(served, topic)
    for step in steps:
        with failpoints.on(step, die):
            served.fail(document)
        served.started.clear()
    served.run(document, 3)
    assert served.done[-1].outcome.already
    copy = tmp_path / "older"
    shutil.copytree(served.wanted(document).checkpoint, copy)
    served.produce(topic, [{"n": 3, "s": "a"}])
    served.run(document, 1)

    assert served.sql("SELECT n, s FROM t ORDER BY n") == [(1, "a"), (2, "b"), (3, "a")]
    assert len(served.rows("q")) == 1
    spec = StreamSpec.model_validate(document)
    found = audit(served.runtime, spec)
    assert {name: found[name] for name in ("consumed", "landed", "quarantined", "missing", "duplicates")} == {
        "consumed": 4, "landed": 3, "quarantined": 1, "missing": 0, "duplicates": 0,
    }  # fmt: skip
    asked = sources.ask(served.runtime, spec, {}, datetime(2026, 1, 1, tzinfo=UTC))
    assert asked.position is not None
    assert (asked.position.seq, asked.table_answered, asked.table_missing) == (2, True, False)
    assert asked.lag is not None
    there = Dependency(Kind.POSTGRES, "there")
    assert there in needs(spec.document(), served.runtime)
    assert probes.ask(served.runtime, [there]) == {there: None}

    shutil.rmtree(served.wanted(document).checkpoint)
    shutil.copytree(copy, served.wanted(document).checkpoint)
    with pytest.raises(Blocked) as caught:
        served.start(document)
    assert caught.value.reason == "older-checkpoint"
    served.sql("DROP TABLE t")
    with pytest.raises(Blocked) as caught:
        served.start(document)
    assert caught.value.reason == "table-missing"
    assert sources.ask(served.runtime, spec, {}, datetime(2026, 1, 1, tzinfo=UTC)).table_missing


@pytest.mark.campaign(
    held_by="tests/faults/test_exactly_once.py::test_every_sink_and_mode_killed_at_a_step_has_every_record_once"
)
def test_groups_are_upserted_as_they_change(served: Any) -> None:
    topic = served.topic()
    sink = {"postgres": {"connection": "there", "table": "app.counts", "mode": "upsert", "keys": ["s"]}}
    select = {"sql": "SELECT s, count(*) AS c FROM source GROUP BY s"}
    document = _document(served, topic, lineage="none", transform=select, sink=sink,
                         spark={"spark.sql.shuffle.partitions": 2})  # fmt: skip
    served.produce(topic, [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}])
    with failpoints.on("after-publish", die):
        served.fail(document)
    served.started.clear()
    served.run(document, 2)
    served.produce(topic, [{"n": 3, "s": "b"}, {"n": 4, "s": "c"}, {"n": 5}])
    served.run(document, 3)
    assert sorted(served.sql("SELECT s, c FROM app.counts"), key=str) == [("a", 1), ("b", 2), ("c", 1), (None, 1)]


def test_what_is_wrong_is_said_before_the_query_starts_with_the_statement_that_mends_it(served: Any) -> None:
    topic = served.topic()
    document = _document(served, topic, lineage="none", transform={"sql": "SELECT n, s FROM source"})
    with pytest.raises(SpecError, match="PostgreSQL connection 'elsewhere' does not exist") as caught:
        served.start({**document, "sink": {"postgres": {"connection": "elsewhere", "table": "t"}}})
    assert caught.value.why == "known connections: there"
    for made, words, mends in (
        ("CREATE VIEW t AS SELECT 1 AS n, 'a' AS s", "a view", None),
        ("CREATE TABLE t (n int, more text, own serial, at timestamptz DEFAULT now())",
         "not in the table: s; only in the table, and without a default: more",
         "ALTER TABLE t DROP COLUMN more, ADD COLUMN s text"),
        ("ALTER TABLE t ALTER n TYPE smallint", "n is INT, the table has smallint",
         "ALTER TABLE t ALTER n TYPE integer, ADD g text GENERATED ALWAYS AS ('x') STORED, DROP s"),
        ("ALTER TABLE t RENAME g TO s", "s is generated by the table", "ALTER TABLE t ALTER s DROP EXPRESSION"),
    ):  # fmt: skip
        served.sql(made)
        with pytest.raises(SpecError) as caught:
            served.start(document)
        assert words in caught.value.why
        served.sql(mends or "DROP VIEW t")
    sink = {**document["sink"]["postgres"], "mode": "upsert", "keys": ["n"]}
    keyed = {**document, "sink": {"postgres": sink}}
    with pytest.raises(SpecError, match="has no unique key") as caught:
        served.start(keyed)
    statement = 'CREATE UNIQUE INDEX ON "public"."t" ("n") NULLS NOT DISTINCT;'
    assert statement in caught.value.next
    served.sql("CREATE UNIQUE INDEX ON t (n)")
    with pytest.raises(SpecError, match="has no unique key") as caught:
        served.start(keyed)
    assert "any number of rows whose key is null" in caught.value.why
    served.sql(statement)
    served.sql("ALTER TABLE t OWNER TO CURRENT_USER; REVOKE UPDATE ON t FROM CURRENT_USER")
    with pytest.raises(SpecError, match="lacks privileges") as caught:
        served.start(keyed)
    assert 'GRANT UPDATE ON "public"."t" TO "lakeward";' in caught.value.why


def test_a_stream_under_a_new_name_is_refused_until_the_old_position_is_taken_out(served: Any) -> None:
    topic = served.topic()
    served.produce(topic, [{"n": 1, "s": "a"}])
    document = _document(served, topic)
    served.run(document, 1)
    renamed = {**document, "id": f"{document['id']}_2"}
    served.declared = lambda: {renamed["id"]: served.wanted(renamed).checkpoint}
    with pytest.raises(Blocked, match="landed by stream") as raised:
        served.start(renamed)
    statement = raised.value.next.split("both are meant: ")[1].removesuffix("   (psql)")
    assert served.sql(f"{statement} RETURNING stream") == [(document["id"],)]
    served.run(renamed, 1)
    assert served.sql("SELECT n FROM t") == [(1,), (1,)]


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_evolution.py::"
    "test_new_columns_come_with_their_generation_and_a_rollback_leaves_them_empty"
)
def test_new_columns_come_with_their_generation_and_fence_the_older_one(served: Any) -> None:
    topic = served.topic()

    def wanted(generation: int, columns: str, evolution: str = "additive") -> Assignment:
        select = {"sql": f"SELECT {columns}, s FROM source"}
        document = _document(served, topic, transform=select, schema={"evolution": evolution}, lineage="none")
        return replace(served.wanted(document), generation=generation)

    def start(generation: int, columns: str, evolution: str = "additive") -> Any:
        running = served.starter().start(wanted(generation, columns, evolution))
        served.started.append(running)
        return running

    def land(generation: int, columns: str, n: int, evolution: str = "additive", records: int = 1) -> Any:
        before = len(served.done)
        served.produce(topic, [{"n": n, "s": "a"}])
        running = start(generation, columns, evolution)
        served.until("the record", lambda: sum(done.consumed for done in served.done[before:]) == records)
        assert running.stop(60)
        return running

    land(1, "n", 1)
    with pytest.raises(SpecError) as refused:
        start(2, "n, n * 10L AS tens, n AS `N2`", "fixed")
    assert "not in the table: tens, N2" in refused.value.why
    with pytest.raises(SpecError) as refused:
        start(2, "n AS `N`")
    assert "not in the table: N" in refused.value.why, "another case of a name is no new column"
    with pytest.raises(SpecError) as refused:
        start(2, "n, n * 10L AS tens, interval 1 day AS never")
    assert "PostgreSQL has no type of the same values: never" in refused.value.why
    for step in ("before-evolve", "after-evolve"):
        with failpoints.on(step, die), pytest.raises(Died):
            start(2, "n, n * 10L AS tens")
        columns = served.sql("SELECT * FROM information_schema.columns WHERE table_name = 't' AND column_name = 'tens'")
        assert len(columns) == (step == "after-evolve")
    land(2, "n, n * 10L AS tens", 2)
    assert served.sql("SELECT n, tens FROM t ORDER BY n") == [(1, None), (2, 20)]

    back = land(1, "n", 3, "fixed")
    assert back.notes == ("column tens was added by generation 2; this one lands no value in it",)
    with pytest.raises(SpecError, match="gives other columns") as left_out:
        start(3, "n")
    assert "only in the table, and without a default: tens" in left_out.value.why

    def newer() -> None:
        """Another driver starts the next generation, while this one has a batch staged."""
        own = served.spark.newSession()
        sink: Any = choose(own, wanted(3, "n, n * 10L AS tens"), served.runtime, dict, lambda: None, {})
        sink.observe({})
        schema = own.createDataFrame([], "n INT, s STRING, tens BIGINT, more STRING").schema
        sink.prepare(schema, stateful=False)
        assert sink.writer._expected == sink.observe_table().state.raw, "what it landed last is what it finds"

    served.produce(topic, [{"n": 4, "s": "a"}])
    calls = iter([newer])
    with failpoints.on("before-publish", lambda: next(calls, lambda: None)()):
        running = start(2, "n, n * 10L AS tens")
        served.started.clear()
        served.until("its end", lambda: not running.active)
    failure = running.failure()
    assert failure is not None
    assert isinstance(failure[0], Fenced)
    assert served.sql("SELECT count(*) FROM t WHERE n = 4") == [(0,)]
    land(3, "n, n * 10L AS tens, s AS more", 5, records=2)
    assert served.sql("SELECT n, tens, more FROM t WHERE n > 3 ORDER BY n") == [(4, 40, "a"), (5, 50, "a")]


def test_a_table_of_several_streams_or_of_another_owner_is_not_changed(
    served: Any, postgres: Any, database: str
) -> None:
    topic = served.topic()
    served.produce(topic, [{"n": 1, "s": "a"}])
    first = _document(served, topic)
    served.run(first, 1)
    more = {"schema": {"evolution": "additive"}, "transform": {"sql": "SELECT *, n + 1 AS extra FROM source"}}
    place = Name("public", "t")
    there = served.runtime.postgres["there"]
    with closing(connection.connect(there, served.runtime.pgpass, "test")) as held:
        state = table.read(held, first["id"], place)
        with pytest.raises(RetryCommit, match="the position moved"):
            evolve.evolve(held, replace(state, raw="another"), {"extra": "text"}, state.position)
        assert "extra" not in table.read(held, first["id"], place).columns, "both or neither"
        served.sql("ALTER TABLE t ADD COLUMN extra text")
        with pytest.raises(RetryCommit, match="already exists"):
            evolve.evolve(held, state, {"extra": "text"}, state.position)
        assert table.read(held, first["id"], place).raw == state.raw
        served.sql("ALTER TABLE t DROP COLUMN extra")
    with pytest.raises(SpecError) as refused:
        served.start({**first, **more, "id": f"{first['id']}_2"})
    assert f"not in the table, which the stream has in common with {first['id']}: extra" in refused.value.why
    assert f"name extra in conf/streams/{first['id']}.yaml too" in refused.value.next
    with closing(postgres._server.connect(database, "postgres", password=postgres.admin_password)) as admin:
        admin.autocommit = True
        with admin.cursor() as cursor:
            cursor.execute(f"ALTER TABLE t OWNER TO postgres; GRANT ALL ON t TO {postgres.user}")
    with pytest.raises(SpecError, match=r"may not add columns to table public\.t") as owned:
        served.start({**first, **more})
    assert owned.value.next.startswith(
        'as the owner of the table: ALTER TABLE "public"."t" ADD COLUMN "extra" integer; then:'
    )


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_references.py::"
    "test_each_batch_joins_the_newest_version_and_needs_it_no_more_once_read"
)
def test_a_reference_in_a_database_is_joined_as_it_is_when_its_interval_is_over(served: Any) -> None:
    topic = served.topic()
    served.sql(
        "CREATE SCHEMA app; CREATE TYPE size AS ENUM ('S', 'L'); CREATE TABLE app.\"Desks\" (n int PRIMARY KEY, "
        "label varchar(9), price numeric(6,2), kind size, more jsonb, since timestamptz, raw bytea);"
        "INSERT INTO app.\"Desks\" VALUES (1, 'one', 1.50, 'L', '{\"a\": 1}', '2026-01-01 00:00+01', '\\x01'),"
        "(2, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    reference = {"desks": {"jdbc": {"connection": "there", "table": "app.Desks"}, "refresh": "100ms"}}
    document = served.spec(
        topic,
        reference=reference,
        transform={"sql": "SELECT source.*, d.* EXCEPT (n) FROM source LEFT JOIN desks d ON d.n = source.n"},
    )

    def joined(n: int) -> dict[str, Any]:
        before = sum(done.consumed for done in served.done)
        served.produce(topic, [{"n": n}])
        served.until("the row", lambda: sum(done.consumed for done in served.done) == before + 1)
        newest: dict[str, Any] = max(served.rows(), key=lambda row: row["_kafka_offset"])
        return newest

    spec = StreamSpec.model_validate(document)
    assert list(analysis.findings(served.spark, spec, runtime=served.runtime)) == []
    running = served.start(document)
    row = joined(1)
    assert (row["label"], str(row["price"]), row["kind"], row["more"], bytes(row["raw"])) == (
        "one", "1.50", "L", '{"a": 1}', b"\x01",
    )  # fmt: skip
    assert str(row["since"]) == "2025-12-31 23:00:00"
    assert joined(2)["label"] is None
    plan = running.query._jsq.explainInternal(True)
    assert str(served.runtime.postgres["there"].port) not in plan, "Spark is told neither the address nor the password"
    served.sql("UPDATE app.\"Desks\" SET label = 'ONE' WHERE n = 1")
    assert joined(1)["label"] == "ONE"
    served.sql('DROP TABLE app."Desks"')
    assert joined(1)["label"] == "ONE", "what was read stays"
    assert running.stop(60)

    with pytest.raises(SpecError, match=r"there is no app\.Desks") as gone:
        served.start(document)
    assert "known tables: " in gone.value.why
    served.sql('CREATE TABLE app."Desks" (n int, label point)')
    [found] = analysis.findings(served.spark, spec, runtime=served.runtime)
    assert found.path == ("reference", "desks", "jdbc")
    assert "label is point" in found.message
    served.sql('DROP TABLE app."Desks"; CREATE VIEW app."Desks" AS SELECT 1 AS n, 2 AS other')
    with pytest.raises(SpecError, match="does not fit") as other:
        served.start({**document, "transform": {"sql": "SELECT source.*, label FROM source JOIN desks USING (n)"}})
    assert "references now: desks (n, other)" in other.value.why
    elsewhere = {"desks": {"jdbc": {"connection": "elsewhere", "table": "app.Desks"}}}
    with pytest.raises(SpecError, match="PostgreSQL connection 'elsewhere' does not exist"):
        served.start({**document, "reference": elsewhere})
