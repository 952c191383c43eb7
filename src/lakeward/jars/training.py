"""Training run for the class archive: `python -m lakeward.jars.training FOLDER ARCHIVE`.

It runs a small example of the work of drivers and maintenance once. Classes that it loads are in the archive; all
others are loaded as usual. It uses local files only and listens on loopback only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.jars import places
from lakeward.jars.java import DEEP_STACK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BY_NAME = (
    "org.apache.iceberg.jdbc.JdbcCatalog",
    "org.apache.iceberg.spark.actions.RewriteDataFilesSparkAction",
    "org.apache.kafka.clients.admin.KafkaAdminClient",
    "org.apache.spark.sql.kafka010.KafkaWriteTask",
    "org.postgresql.Driver",
    "org.postgresql.jdbc.PgConnection",
)
_EXTENSIONS = (
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,io.delta.sql.DeltaSparkSessionExtension"
)


def conf(folder: Path, archive: Path) -> dict[str, str]:
    """The Spark conf of the training: the class path of drivers and the Connect server, with catalogs in `folder`."""
    return {
        "spark.master": "local[2]",
        "spark.app.name": "training of lakeward",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in places.spark_classpath()),
        "spark.driver.extraJavaOptions": f"{DEEP_STACK} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        f" -XX:ArchiveClassesAtExit={archive} -Xlog:disable -Xlog:all=error:stderr -Dderby.system.home={folder}",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "localhost",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.extensions": _EXTENSIONS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
        "RocksDBStateStoreProvider",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
    }


def main(folder: Path, archive: Path) -> None:
    """Run all parts once, then load classes by name."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in conf(folder, archive).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _tables(session, folder)
    _stream(session, folder)
    loader = session._jvm.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]  # py4j: there is a JVM
    for name in _BY_NAME:
        session._jvm.Class.forName(name, True, loader)  # type: ignore[union-attr]  # py4j: there is a JVM
    jvm = session.sparkContext._gateway.proc  # type: ignore[union-attr]  # py4j: there is a JVM
    session.stop()
    jvm.stdin.close()  # so it ends, and writes the archive
    jvm.wait()


def _tables(session: SparkSession, folder: Path) -> None:
    rows = session.range(200).selectExpr("id", "timestamp_seconds(id * 9000) AS at", "cast(id % 3 AS string) AS key")
    session.sql("CREATE NAMESPACE lake.t")
    session.sql(
        "CREATE TABLE lake.t.t (id BIGINT, at TIMESTAMP, key STRING) USING iceberg PARTITIONED BY (days(at), key)"
    )
    for _ in range(3):
        rows.writeTo("lake.t.t").append()
    session.sql("CALL lake.system.rewrite_data_files(table => 't.t', options => map('rewrite-all', 'true'))").collect()
    session.sql("CALL lake.system.rewrite_manifests('t.t')").collect()
    session.sql("CALL lake.system.expire_snapshots(table => 't.t', older_than => now(), retain_last => 1)").collect()
    session.sql("SELECT key, count(*), max(at) FROM lake.t.t GROUP BY key").collect()
    session.sql("SELECT * FROM lake.t.t.files").collect()
    rows.write.format("delta").save(str(folder / "delta"))
    session.sql(f"OPTIMIZE delta.`{folder / 'delta'}`").collect()


def _stream(session: SparkSession, folder: Path) -> None:
    """A stream like a driver's: decode JSON, join, count by window with state, write in foreachBatch."""

    def land(batch: DataFrame, number: int) -> None:
        batch.persist()
        batch.count()
        batch.unpersist()

    ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
    decoded = ticks.selectExpr(
        "timestamp", "from_json(to_json(struct(value)), 'value BIGINT', map('mode', 'PERMISSIVE')).value AS value"
    ).join(session.range(10).withColumnRenamed("id", "value"), "value", "left")
    counted = decoded.withWatermark("timestamp", "1 minute").groupBy("value").count()
    query = (
        counted.writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .foreachBatch(land)
        .start()
    )
    session.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9").option("subscribe", "t").load()
    while query.isActive and len(query.recentProgress) < 2:
        query.awaitTermination(1)
    query.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
