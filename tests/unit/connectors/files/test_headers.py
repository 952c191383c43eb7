"""A file says what its columns are, and one that Spark would not read is told. Spark's own reading of the types of Avro
is compared in `tests/spark/driver/test_files.py`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files.headers import avro_columns_of, differences
from lakeward.spec.model.sources import FilesSource

ROWS = {"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "int"]}]}


def written(schema: Any, *records: Any, codec: str = "null") -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, schema, records, codec=codec, sync_interval=1)
    return file.getvalue()


@pytest.mark.parametrize("records", [(), ({"n": 1}, {"n": None})], ids=["no block", "two blocks"])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_whole_file_has_columns(records: tuple[Any, ...], codec: str) -> None:
    assert avro_columns_of(io.BytesIO(written(ROWS, *records, codec=codec))) == {"n": "int"}


WHOLE = written(ROWS, {"n": 1}, {"n": 2})
TREE = {"type": "record", "name": "tree", "fields": [{"name": "below", "type": ["null", "tree"]}]}
NOT_WHOLE = [
    (b"", "does not begin with"),
    (b"PAR1" + WHOLE, "does not begin with"),
    (WHOLE[:10], "header cannot be read"),
    (b"Obj\x01" + b"\xff" * 40, "header cannot be read"),
    (WHOLE.replace(b'"int"', b'"odd"'), "header cannot be read"),
    (WHOLE[:-1], "in the middle of a block"),
    (WHOLE + b"more", "in the middle of a block"),
    (written("long", 1), "its records are BIGINT"),
]


@pytest.mark.parametrize(("content", "words"), NOT_WHOLE, ids=range(len(NOT_WHOLE)))
def test_what_is_no_whole_file_is_reported(content: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        avro_columns_of(io.BytesIO(content))


def test_a_record_inside_itself_is_its_own_name() -> None:
    assert avro_columns_of(io.BytesIO(written(TREE))) == {"below": "tree"}


@pytest.mark.parametrize("old", [False, True], ids=["of 8 bytes", "of 12 bytes"])
def test_a_time_in_nanoseconds_is_refused_at_any_depth_where_spark_does_not_read_it(tmp_path: Path, old: bool) -> None:
    """Pandas writes them by default. Spark fails in the middle of a batch."""
    from pyspark.sql.types import ArrayType, StructType, TimestampNTZType

    times = {"at": pa.timestamp("ns"), "deep": pa.list_(pa.struct([("at", pa.timestamp("ns", "UTC"))]))}
    file = tmp_path / "a.parquet"
    rows = pa.table({name: pa.array([], kind) for name, kind in times.items()})
    pq.write_table(rows, file, use_deprecated_int96_timestamps=old)
    inner = StructType().add("at", TimestampNTZType())
    declared = StructType().add("at", TimestampNTZType()).add("deep", ArrayType(inner))
    ddl = "at TIMESTAMP_NTZ, deep ARRAY<STRUCT<at: TIMESTAMP_NTZ>>"
    given = {"path": str(tmp_path), "format": "parquet", "columns": ddl, "max_files_per_trigger": 1}
    found = differences(FileAccess(), file.as_uri(), FilesSource.model_validate(given), declared)
    way = "(Spark reads no times in nanoseconds: write the file with microseconds)"
    deep = "LIST<ELEMENT: STRUCT<AT: TIMESTAMP[NS, TZ=UTC]>>, declared is ARRAY<STRUCT<AT:TIMESTAMP_NTZ>>"
    refused = [f"at is TIMESTAMP[NS], declared is TIMESTAMP_NTZ {way}", f"deep is {deep} {way}"]
    assert found == ([] if old else refused)


def test_numbers_without_a_sign_are_accepted_where_spark_reads_them_exactly(tmp_path: Path) -> None:
    from pyspark.sql.types import ByteType, DecimalType, IntegerType, LongType, ShortType, StringType, StructType

    file = tmp_path / "a.parquet"
    kinds = {"a": pa.uint8(), "b": pa.uint16(), "c": pa.uint32(), "d": pa.uint64(), "doc": pa.json_()}
    pq.write_table(pa.table({name: pa.array([], kind) for name, kind in kinds.items()}), file)

    def found(*types: Any) -> list[str]:
        source = {"path": str(tmp_path), "format": "parquet", "columns": "a INT", "max_files_per_trigger": 1}
        declared = StructType()
        for name, kind in zip(kinds, types, strict=False):
            declared.add(name, kind)
        return differences(FileAccess(), file.as_uri(), FilesSource.model_validate(source), declared)

    assert found(ShortType(), IntegerType(), LongType(), DecimalType(20, 0), StringType()) == []
    assert found(ByteType(), ShortType(), IntegerType(), LongType()) == [
        "a is UINT8, declared is TINYINT", "b is UINT16, declared is SMALLINT", "c is UINT32, declared is INT",
        "d is UINT64, declared is BIGINT",
    ]  # fmt: skip
