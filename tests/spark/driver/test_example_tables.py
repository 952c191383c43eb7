"""The examples that land elsewhere than in Iceberg, that drop duplicates, and that learn."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import counted, load, produced

from lakeward.connectors.delta import location
from lakeward.connectors.postgres import connection, table
from lakeward.platform.runtime import Database

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def departures() -> Records:
    return produced(0.6)["departures"]


def source(lab: Any, records: Records) -> None:
    """The records as the view the examples' SQL reads."""
    columns = "carrier STRING, flight INT, origin STRING, dest STRING, scheduled_at TIMESTAMP, dep_delay DOUBLE"
    texts = lab.spark.createDataFrame([(json.dumps(each),) for each in records], "value STRING")
    texts.selectExpr(f"from_json(value, '{columns}') AS r").select("r.*").createOrReplaceTempView("source")


def wanted(lab: Any, document: dict[str, Any], records: Records) -> dict[str, int]:
    """What the example's SQL gives of all records at once, without the positions."""
    source(lab, records)
    return counted(lab.spark.sql(document["transform"]["sql"]))


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_delta.py::test_a_stream_lands_in_delta_once_and_its_bad_rows_in_quarantine"
)
@pytest.mark.parametrize("name", ["departures_in_delta", "worst_delays_in_delta"])
def test_a_delta_table_holds_what_a_recomputation_gives(
    lab: Any, tmp_path: Path, departures: Records, name: str
) -> None:
    topic = lab.topic()
    document = load(lab, name, tmp_path, {"departures": topic})
    document["sources"]["source"]["kafka"]["max_offsets_per_trigger"] = 150
    lab.produce(topic, departures)
    lab.run(document, len(departures))
    folder = location.folder_of(lab.runtime.lake, f"{lab.namespace}.{name}")
    assert counted(lab.spark.read.format("delta").load(str(folder))) == wanted(lab, document, departures)


@pytest.mark.parametrize(
    "name",
    [
        "departures_in_postgres",
        pytest.param(
            "airports_in_postgres",
            marks=pytest.mark.campaign(held_by="test_a_table_of_postgresql_holds_what_a_recomputation_gives"),
        ),
    ],
)
def test_a_table_of_postgresql_holds_what_a_recomputation_gives(
    lab: Any, tmp_path: Path, departures: Records, name: str, postgres: Any, database: str
) -> None:
    where = Database(host=postgres.host, port=postgres.port, database=database, user=postgres.user)
    lab.runtime = lab.runtime.model_copy(update={"postgres": {"lakeward_postgres": where}, "pgpass": postgres.pgpass})
    topic = lab.topic()
    document = load(lab, name, tmp_path, {"departures": topic})
    document["sources"]["source"]["kafka"]["max_offsets_per_trigger"] = 150
    lab.produce(topic, departures)
    lab.run(document, len(departures))
    source(lab, departures)
    expected = lab.spark.sql(document["transform"]["sql"])
    rows = [tuple(row) for row in expected.withColumns(_as_text(expected)).collect()]
    with closing(connection.connect(where, postgres.pgpass, "test")) as held:
        texts = ", ".join(f"{each}::text" if kind == "timestamp" else each for each, kind in expected.dtypes)
        found = Counter(map(str, table.query(held, f"SELECT {texts} FROM {name}")))
    assert found == Counter(map(str, rows))


def _as_text(rows: Any) -> dict[str, Any]:
    """Its times as PostgreSQL writes them."""
    from pyspark.sql import functions as F

    return {name: F.date_format(name, "yyyy-MM-dd HH:mm:ss'+00'") for name, kind in rows.dtypes if kind == "timestamp"}


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_deduplicate.py::test_duplicates_are_dropped_and_counted_as_filtered"
)
def test_what_was_sent_twice_lands_once(lab: Any, tmp_path: Path, departures: Records) -> None:
    topic = lab.topic()
    document = load(lab, "departures_once", tmp_path, {"departures": topic})
    twice = [each for first in range(0, len(departures), 3) for each in departures[first : first + 3] * 2]
    lab.produce(topic, twice)
    lab.run(document, len(twice))
    assert counted(lab.spark.table(f"lake.{lab.namespace}.departures_once")) == wanted(lab, document, departures)


def fitted(records: Records, carrier: str, forget: float, doubt: float) -> tuple[int, Any]:
    """The same model by solving the weighted normal equations of all departures at once."""
    own = [each for each in records if each["carrier"] == carrier and each["dep_delay"] is not None]
    x = np.array([[1.0, int(each["scheduled_at"][11:13]) / 24] for each in own])
    y = np.array([each["dep_delay"] for each in own])
    weights = forget ** np.arange(len(own) - 1, -1, -1.0)
    left = (x * weights[:, None]).T @ x + np.eye(2) / doubt * forget ** len(own)
    return len(own), np.linalg.solve(left, (x * weights[:, None]).T @ y)


@pytest.mark.campaign(held_by="tests/spark/driver/test_examples.py::test_an_example_lands_what_a_recomputation_gives")
def test_a_model_that_learns_is_taken_over_by_the_stream_that_scores(
    lab: Any, tmp_path: Path, departures: Records
) -> None:
    topic, asked = lab.topic(), lab.topic()
    learner = load(lab, "delay_model", tmp_path / "learner", {"departures": topic})
    scorer = load(lab, "delay_scores", tmp_path / "scorer", {"departures": asked})
    scorer["reference"]["versions"]["refresh"] = "100ms"
    half = len(departures) // 2

    def newest() -> dict[str, Any]:
        rows = sorted(lab.rows("delay_model"), key=lambda row: row["version"])
        return {row["carrier"]: row for row in rows}

    def score(record: dict[str, Any]) -> dict[str, Any]:
        before = sum(done.consumed for done in lab.done if done.stream == scorer["id"])
        lab.produce(asked, [record])
        lab.until(
            "its score", lambda: sum(done.consumed for done in lab.done if done.stream == scorer["id"]) == before + 1
        )
        return max(lab.rows("delay_scores"), key=lambda row: row["_kafka_offset"])

    lab.produce(topic, departures[:half])
    lab.run(learner, half)
    first = newest()
    scoring = lab.start(scorer)
    flight = next(each for each in departures if each["carrier"] == "UA")
    scored = score(flight)
    hour = int(flight["scheduled_at"][11:13])
    assert scored["model_version"] == first["UA"]["version"]
    assert scored["expected_delay"] == pytest.approx(first["UA"]["bias"] + first["UA"]["by_hour"] * hour / 24, abs=0.06)

    lab.produce(topic, departures[half:])
    lab.run(learner, len(departures) - half)
    second = newest()
    assert second["UA"]["version"] > first["UA"]["version"]
    assert second["UA"]["valid_from"] > first["UA"]["valid_from"]
    for carrier, row in second.items():
        seen, weights = fitted(departures, carrier, 0.999, 1000.0)
        assert row["seen"] == seen
        assert (row["bias"], row["by_hour"]) == pytest.approx(tuple(weights), rel=1e-6, abs=1e-6)
    lab.until("the new model", lambda: score(flight)["model_version"] == second["UA"]["version"])
    assert scoring.active, "nothing was started again"
