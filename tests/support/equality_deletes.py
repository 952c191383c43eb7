"""Equality deletes, as Flink writes them, through Iceberg's Java API in the JVM of a Spark session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delete_by_id(spark: SparkSession, table: str, ids: Iterable[int], job: str = "4f2a") -> None:
    """Commit one delete file without partitions that deletes the rows with these values of the long column `id`.

    Args:
        spark: a session with a JVM.
        table: `lake.namespace.table`.
        ids: the values, all above 2**31: py4j sends smaller ones as integers.
        job: the id of the Flink job that the snapshot names.
    """
    jvm = spark._jvm
    assert jvm is not None
    iceberg = jvm.org.apache.iceberg
    loaded = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
    schema = loaded.schema().select(["id"])
    column = spark._sc._gateway.new_array(jvm.int, 1)
    column[0] = loaded.schema().findField("id").fieldId()
    builder = getattr(jvm, "org.apache.iceberg.data.GenericFileWriterFactory$Builder")(loaded)
    parquet = iceberg.FileFormat.PARQUET
    factory = builder.deleteFileFormat(parquet).equalityFieldIds(column).equalityDeleteRowSchema(schema).build()
    files = iceberg.io.OutputFileFactory.builderFor(loaded, 1, 1).format(parquet).build()
    writer = factory.newEqualityDeleteWriter(files.newOutputFile(), iceberg.PartitionSpec.unpartitioned(), None)
    for value in ids:
        record = iceberg.data.GenericRecord.create(schema)
        record.setField("id", value)
        writer.write(record)
    writer.close()
    loaded.newRowDelta().addDeletes(writer.toDeleteFile()).set("flink.job-id", job).commit()
