"""References: the version a batch joins, what is seen when one changes, and what is said when one is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.delta import location
from lakeward.connectors.delta import table as delta_table
from lakeward.platform.errors import SpecError

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

EVERY_KIND = """
SELECT source.*, names.name, places.place, files.file FROM source
LEFT JOIN names ON names.n = source.n LEFT JOIN places ON places.n = source.n LEFT JOIN files ON files.n = source.n
"""


@pytest.fixture
def tables(lab: Any) -> Callable[..., None]:
    """Runs SQL in which `{names}` is an Iceberg table, `{places}` a Delta table."""
    folder = location.folder_of(lab.runtime.lake, f"{lab.namespace}.places")
    names = {"names": f"lake.{lab.namespace}.names", "places": location.by_path(folder)}

    def run(*statements: str) -> None:
        for each in statements:
            lab.spark.sql(each.format(**names))

    run("CREATE TABLE {names} (n INT, name STRING) USING iceberg")
    return run


@pytest.fixture
def places(lab: Any) -> Iterator[None]:
    """The Delta table that `tables` names."""
    schema = lab.spark.createDataFrame([], "n INT, place STRING").schema
    delta_table.create(lab.spark, lab.runtime.lake, f"{lab.namespace}.places", schema)
    yield
    lab.spark.sql(f"DROP TABLE IF EXISTS spark_catalog.{lab.namespace}.places")


def _land(lab: Any, topic: str, n: int) -> dict[str, Any]:
    """The row that one more record becomes."""
    before = sum(done.consumed for done in lab.done)
    lab.produce(topic, [{"n": n}])
    lab.until("the row", lambda: sum(done.consumed for done in lab.done) == before + 1)
    newest: dict[str, Any] = max(lab.rows(), key=lambda row: row["_kafka_offset"])
    return newest


def _joined(lab: Any, topic: str, n: int) -> tuple[Any, Any, Any]:
    row = _land(lab, topic, n)
    return row["name"], row["place"], row["file"]


@pytest.mark.parametrize(
    "back",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.campaign(
                held_by="test_each_batch_joins_the_newest_version_and_needs_it_no_more_once_read"
            ),
        ),
    ],
    ids=["gone", "gone and back"],
)
def test_each_batch_joins_the_newest_version_and_needs_it_no_more_once_read(
    lab: Any, tables: Any, places: None, back: bool
) -> None:
    topic, file = lab.topic(), Path(lab.folder) / "files.csv"
    file.write_text("n,file\n1,one\n")
    tables("INSERT INTO {names} VALUES (1, 'one')", "INSERT INTO {places} VALUES (1, 'here')")
    document = lab.spec(
        topic,
        reference={
            "names": {"iceberg": f"{lab.namespace}.names", "refresh": "100ms"},
            "places": {"delta": f"{lab.namespace}.places", "refresh": "100ms"},
            "files": {"csv": str(file), "columns": "n INT, file STRING", "refresh": "100ms"},
        },
        transform={"sql": EVERY_KIND},
    )
    lab.start(document)
    assert _joined(lab, topic, 1) == ("one", "here", "one")
    tables(
        "UPDATE {names} SET name = 'ONE'",
        "UPDATE {places} SET place = 'THERE'",
        "INSERT INTO {names} VALUES (2, 'two')",
    )
    file.write_text("n,file\n1,ONE!\n")
    assert _joined(lab, topic, 1) == ("ONE", "THERE", "ONE!")
    assert _joined(lab, topic, 2) == ("two", None, None)

    # All of them gone: what was read stays.
    tables("DROP TABLE {names} PURGE")
    folder = location.folder_of(lab.runtime.lake, f"{lab.namespace}.places")
    folder.rename(folder.with_name("elsewhere"))
    file.unlink()
    assert _joined(lab, topic, 1) == ("ONE", "THERE", "ONE!")

    if not back:
        folder.with_name("elsewhere").rename(folder)
        return
    # Back again: another table under the same name, the other one where it was.
    tables("CREATE TABLE {names} (n INT, name STRING) USING iceberg", "INSERT INTO {names} VALUES (1, 'uno')")
    folder.with_name("elsewhere").rename(folder)
    tables("UPDATE {places} SET place = 'again'")
    file.write_text("n,file\n1,back\n")
    assert _joined(lab, topic, 1) == ("uno", "again", "back")


@pytest.mark.campaign(held_by="test_each_batch_joins_the_newest_version_and_needs_it_no_more_once_read")
def test_a_plan_with_state_holds_one_version_until_it_is_made_again(lab: Any, tables: Any) -> None:
    topic = lab.topic()
    tables("INSERT INTO {names} VALUES (1, 'one')")
    document = lab.spec(
        topic,
        reference={"names": {"iceberg": f"{lab.namespace}.names", "refresh": "100ms"}},
        transform={"sql": "SELECT name, count(*) AS n FROM source JOIN names USING (n) GROUP BY name"},
        sink={"iceberg": {"table": f"{lab.namespace}.t", "mode": "upsert", "keys": ["name"]}},
    )
    running = lab.start(document)
    lab.produce(topic, [{"n": 1}])
    lab.until("the first row", lambda: sum(done.consumed for done in lab.done) == 1)
    assert not running.references.changed(lab.spark)
    tables("UPDATE {names} SET name = 'ONE'", f"CALL lake.system.expire_snapshots(table => '{lab.namespace}.names', "
           "older_than => TIMESTAMP '2999-01-01', retain_last => 1)")  # fmt: skip
    lab.produce(topic, [{"n": 1}])
    lab.until("the second row", lambda: sum(done.consumed for done in lab.done) == 2)
    assert [(row["name"], row["n"]) for row in lab.rows()] == [("one", 2)], "the expired snapshot is in memory"
    lab.until("the change is seen", lambda: running.references.changed(lab.spark))


def test_columns_that_were_renamed_or_added_since_the_newest_snapshot(lab: Any, tables: Any) -> None:
    topic = lab.topic()
    tables(
        "INSERT INTO {names} VALUES (1, 'one')",
        "ALTER TABLE {names} RENAME COLUMN name TO label",
        "ALTER TABLE {names} ALTER COLUMN n TYPE BIGINT",
        "ALTER TABLE {names} ADD COLUMN name STRING",
    )
    document = lab.spec(
        topic,
        reference={"names": {"iceberg": f"{lab.namespace}.names", "refresh": "100ms"}},
        transform={"sql": "SELECT source.*, label, name, names.n AS wide FROM source JOIN names ON names.n = source.n"},
    )
    lab.start(document)
    row = _land(lab, topic, 1)
    assert (row["label"], row["name"], row["wide"]) == ("one", None, 1)
    assert dict(lab.spark.table(f"lake.{lab.namespace}.t").dtypes)["wide"] == "bigint"

    # A column that the transform names goes: the batch stops and says which reference has what.
    tables("ALTER TABLE {names} DROP COLUMN label")
    lab.produce(topic, [{"n": 1}])
    lab.until("the failure", lambda: not lab.started[-1].active)
    error = lab.started[-1].failure()[0]
    lab.started.clear()
    assert isinstance(error, SpecError)
    assert "label" in error.why
    assert "names (n, name)" in error.why
    assert len(lab.rows()) == 1


def test_a_table_that_is_not_there_is_named_with_those_that_are(lab: Any, tables: Any, places: None) -> None:
    topic = lab.topic()
    for kind, like in (("iceberg", "names"), ("delta", "places")):
        document = lab.spec(
            topic,
            reference={"r": {kind: f"{lab.namespace}.{like}s"}},
            transform={"sql": "SELECT source.* FROM source JOIN r USING (n)"},
        )
        with pytest.raises(SpecError) as raised:
            lab.start(document)
        assert f"there is no {lab.namespace}.{like}s" in raised.value.what
        assert f"did you mean {lab.namespace}.{like}?" in raised.value.why


def test_the_row_that_was_valid_then_and_periods_that_overlap(lab: Any, tables: Any) -> None:
    topic = lab.topic()
    tables(
        "ALTER TABLE {names} ADD COLUMNS (valid_from TIMESTAMP, valid_to TIMESTAMP)",
        "INSERT INTO {names} VALUES (1, 'first', TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-02'), "
        "(1, 'second', TIMESTAMP '2026-01-02', NULL)",
    )
    document = lab.spec(
        topic,
        decode={"json": "n INT, t TIMESTAMP"},
        reference={"names": {"iceberg": f"{lab.namespace}.names", "refresh": "100ms"}},
        transform={
            "sql": "SELECT source.*, name FROM source LEFT JOIN names ON names.n = source.n AND t >= valid_from "
            "AND (t < valid_to OR valid_to IS NULL)"
        },
    )
    times = ["2025-12-31T23:59:59Z", "2026-01-01T00:00:00Z", "2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z"]
    lab.produce(topic, [{"n": 1, "t": each} for each in times])
    lab.run(document, 4)
    assert [row["name"] for row in sorted(lab.rows(), key=lambda row: row["t"])] == [None, "first", "first", "second"]

    tables("UPDATE {names} SET valid_from = TIMESTAMP '2026-01-01 12:00:00' WHERE name = 'second'")
    lab.produce(topic, [{"n": 1, "t": "2026-01-01T13:00:00Z"}])
    error = lab.fail(document)
    lab.started.clear()
    assert isinstance(error, SpecError)
    assert "_kafka_offset=4 comes out 2 times" in error.why
    assert len(lab.rows()) == 4, "nothing of the batch landed"
    tables("UPDATE {names} SET valid_to = TIMESTAMP '2026-01-01 12:00:00' WHERE name = 'first'")
    lab.run(document, 1)
    assert {row["_kafka_offset"]: row["name"] for row in lab.rows()}[4] == "second"
