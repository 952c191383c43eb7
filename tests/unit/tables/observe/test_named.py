"""The files that a manifest names are read past partition values of every type."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeward.tables.observe.deletion_vectors import referenced
from lakeward.tables.observe.named import paths_of

VALUES: list[tuple[Any, Any]] = [
    (DecimalType(38, 10), Decimal("-1.5000000000")), (DecimalType(9, 2), Decimal("120.00")),
    (DecimalType(1, 0), Decimal(7)),
    (UUIDType(), UUID(int=7).bytes), (BinaryType(), b"\x00\xff"), (FixedType(3), b"abc"), (StringType(), "ü" * 99),
    (DateType(), date(1960, 1, 1)), (TimestamptzType(), datetime(1960, 1, 1, tzinfo=UTC)), (TimeType(), time(23)),
    (BooleanType(), True), (DoubleType(), float("nan")), (FloatType(), -0.0), (IntegerType(), -1), (LongType(), 2**62),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_every_file_is_named(kind: Any, value: Any, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("n")
    schema = Schema(NestedField(1, "p", kind, required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"))
    made = catalog.create_table("n.t", schema, partition_spec=spec)
    stored = _stored(kind, value)
    with made.transaction() as change, change.update_snapshot().fast_append() as append:
        for number, part in enumerate((stored, None, stored)):
            file = DataFile.from_args(
                content=DataFileContent.DATA, file_path=f"/lake/{number}.parquet", file_format=FileFormat.PARQUET,
                partition=Record(part), record_count=1, file_size_in_bytes=1,
            )  # fmt: skip
            append.append_data_file(file)
    [manifest] = catalog.load_table("n.t").current_snapshot().manifests(made.io)
    found = list(paths_of(manifest.manifest_path, PyArrowFileIO()))
    assert found == [f"/lake/{number}.parquet" for number in range(3)]
    assert referenced(manifest, PyArrowFileIO()) == [None] * 3
    catalog.close()


def _stored(kind: Any, value: Any) -> Any:
    """A value as PyIceberg keeps it in a manifest."""
    from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros

    kinds = {DateType(): date_to_days, TimestamptzType(): datetime_to_micros, TimeType(): time_to_micros}
    return kinds[kind](value) if kind in kinds else value
