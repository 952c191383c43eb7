"""Fill the topics the examples read, on the broker of a running stack.

    python conf/examples/produce.py [--days 14] [--logs .lakeward/drivers/demo]

`departures` and `weather` are the New York flights and the hourly weather of 2013, in the order of their event time;
`driver_logs` is what `--logs` names: a driver's folder, its log files line by line.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.csv
from confluent_kafka import Producer

from lakeward.demo import flights
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.stack.kafka import create_topic

Timed = tuple[datetime, str, dict[str, Any]]
"""Event time, topic, record."""

BEGIN = datetime(2013, 1, 1, tzinfo=UTC)


def departures() -> Iterator[Timed]:
    """Every flight with its scheduled minute, in that order."""
    wanted = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "distance")
    table = flights.load().select([*wanted, "time_hour", "minute"])
    table = table.sort_by([("time_hour", "ascending"), ("minute", "ascending")])
    for batch in table.to_batches(max_chunksize=4096):  # a day has 900 rows: what comes later stays as it is
        for row in batch.to_pylist():
            at = row["time_hour"].replace(tzinfo=UTC) + timedelta(minutes=row["minute"])
            yield at, "departures", {**{name: row[name] for name in wanted}, "scheduled_at": _text(at)}


def weather() -> Iterator[Timed]:
    """Every observation, in the order of its hour."""
    options = pyarrow.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    table = pyarrow.csv.read_csv(flights.data_folder() / "weather.csv", convert_options=options)
    wanted = ("origin", "temp", "visib", "wind_speed", "precip")
    rows = table.select([*wanted, "time_hour"]).sort_by("time_hour").to_pylist()
    for row in rows:
        at = row["time_hour"].replace(tzinfo=UTC)
        yield at, "weather", {**{name: row[name] for name in wanted}, "observed_at": _text(at)}


def records(days: float) -> Iterator[Timed]:
    """The first `days` of both, merged by event time."""
    end = BEGIN + timedelta(days=days)
    for each in heapq.merge(departures(), weather(), key=lambda timed: timed[0]):
        if each[0] >= end:
            return
        yield each


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=float, default=14, help="how much of the year (default 14)")
    parser.add_argument("--logs", type=Path, help="the folder of a driver whose log goes into driver_logs")
    arguments = parser.parse_args()
    bootstrap = Runtime.load(Home.locate(None, Project.locate()).runtime_file).kafka["lakeward_kafka"]
    create_topic(bootstrap, "departures", 3)
    for topic in ("weather", "driver_logs", "late_departures", "late_departures_now"):
        create_topic(bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
    sent = 0
    for _, topic, record in records(arguments.days):
        producer.produce(topic, json.dumps(record), str(record["origin"]))
        producer.poll(0)
        sent += 1
    for file in sorted(arguments.logs.glob("*.log*")) if arguments.logs else ():
        for line in file.read_text(errors="replace").splitlines():
            producer.produce("driver_logs", line)
            producer.poll(0)
            sent += 1
    producer.flush()
    print(f"{sent:,} records sent to {bootstrap}")


if __name__ == "__main__":
    main()
