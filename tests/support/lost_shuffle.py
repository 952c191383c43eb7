"""A write whose shuffle output is lost while it is read, observed as a batch in one pass: prints why it is not proven.

python lost_shuffle.py SPEC FOLDER

It runs in a process of its own: with `local[n]` a fetch failure takes the block manager of the driver off the master,
which never takes it back, and Spark ends the process when its heartbeats have failed for ten minutes.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.source import KafkaStreamSource
from lakeward.driver.core_time import CoreTime
from lakeward.engine.flow import Flow
from lakeward.engine.one_pass import Observed, OnePass, Unproven
from lakeward.jars import own
from lakeward.spec.model.driver_conf import QUICK
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS, MAPS = 40, 4
LANDED = RECORDS * 3 // 4


def observed(spark: SparkSession, document: dict[str, Any]) -> Observed:
    """Forty records in four partitions, a quarter of them filtered."""
    from pyspark.sql import functions as F

    spec = StreamSpec.model_validate(document)
    source = KafkaStreamSource("source", spec.source, Cluster("c", "h:1"))
    flow = Flow(spec, [source], spark, False, None, "rows", linear=True, filters=True)
    record = F.to_json(F.struct(F.col("id").alias("n"))).cast("binary").alias("_value")
    columns = [F.lit("t").alias("_kafka_topic"), F.lit(0).alias("_kafka_partition"), F.col("id").alias("_kafka_offset")]
    times = [F.current_timestamp().alias(name) for name in ("_kafka_timestamp", "_ingested_at")]
    raw = spark.range(0, RECORDS, 1, MAPS).select(record, *columns, *times)
    at = ['{"t":{"0":0}}', f'{{"t":{{"0":{RECORDS}}}}}']
    return OnePass(flow, possible=True).route(raw, RunningBatch("q", 1, {"source": at[0]}, {"source": at[1]}))


def _counts_attempts(spent: CoreTime) -> bool:
    """Whether the time of the stage that ran twice is more than that of its last attempt."""
    store = spent._store
    twice = [stage for job in spent._ended_jobs("lost") for stage in _stages(store, job) if _attempts(store, stage) > 1]
    return any(spent._of_stage(each) > store.lastStageAttempt(each).executorRunTime() for each in twice)


def _stages(store: Any, job: int) -> list[int]:
    return [int(stage) for stage in store.job(job).stageIds().mkString(",").split(",")]


def _attempts(store: Any, stage: int) -> int:
    return int(store.lastStageAttempt(stage).attemptId()) + 1


def main(document: dict[str, Any], folder: Path) -> str:
    """The doubt about the write; empty if it is taken for proven."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.local.dir", str(folder / "local"))
    for name, value in {
        # A JVM of some seconds: the second compiler would never earn its cost.
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {QUICK}",
        "spark.jars": ",".join(str(jar) for jar in own.libraries()),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    lost = str(folder / "lost")
    local = str(folder / "local")

    def lose(frames: Any) -> Any:
        """Delete the output of one task of the first stage, once, while the second stage reads."""
        with suppress(FileExistsError):
            Path(lost).touch(exist_ok=False)
            found = list(Path(local).rglob("shuffle_*.index"))
            max(found, key=lambda file: file.stat().st_mtime_ns).unlink()
        yield from frames

    batch = observed(spark, document)
    shuffled = batch.good.repartition(8, "n").mapInPandas(lose, batch.good.schema)
    spark.sparkContext.setJobGroup("lost", "a write")
    batch.before()
    shuffled.write.format("noop").mode("overwrite").save()
    if not Path(lost).exists():
        raise RuntimeError("no shuffle output was lost")
    print("core time of all attempts:", _counts_attempts(CoreTime(spark.sparkContext)))
    try:
        batch.after(LANDED)
    except Unproven as found:
        return found.doubt.name
    return ""


if __name__ == "__main__":
    print("doubt:", main(json.loads(sys.argv[1]), Path(sys.argv[2])))
