"""A stream as anybody writes it by hand: Kafka to Iceberg by `toTable`. `python native_stream.py LAUNCH.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lakeward.engine import session
from lakeward.platform.runtime import Launch


def main(file: str) -> None:
    """Run until killed; the launch's folder has `native.json` with topic, table, brokers, checkpoint and columns.

    With `create` it makes the table, with every position column of Kafka.
    """
    launch = Launch.read(Path(file))
    settings = json.loads((launch.folder / "native.json").read_text())
    spark = session.start(launch)
    position = {"_kafka_partition": "partition", "_kafka_offset": "offset"}
    if settings.get("create"):
        position |= {"_kafka_topic": "topic", "_kafka_timestamp": "timestamp", "_ingested_at": "current_timestamp()"}
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{settings['table'].rpartition('.')[0]}")
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", settings["brokers"])
    begins = {"subscribe": settings["topic"], "startingOffsets": "earliest", "maxOffsetsPerTrigger": 60}
    records = source.options(**begins).load()
    rows = records.selectExpr(
        f"from_json(CAST(value AS STRING), '{settings['columns']}') AS v",
        *(f"{value} AS {name}" for name, value in position.items()),
    ).selectExpr("v.*", *position)
    query = (
        rows.writeStream.format("iceberg").outputMode("append").trigger(processingTime="1 second")
        .option("checkpointLocation", settings["checkpoint"]).toTable(f"lake.{settings['table']}")
    )  # fmt: skip
    query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])
