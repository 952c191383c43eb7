"""A table that is dropped while its rows are looked up."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakeward.quality.ranges.metadata import NoTable
from lakeward.quality.ranges.range import Read
from lakeward.quality.runs.formats import IcebergTable


def test_a_table_dropped_meanwhile_is_an_error_in_words(tmp_path: Path) -> None:
    lake = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    lake.create_namespace("n")
    lake.create_table("n.t", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    table = IcebergTable("n.t", lake)
    history, found = table.look(())
    lake.drop_table("n.t")
    assert history.head is not None
    with pytest.raises(NoTable, match=r"Table n\.t does not exist"):
        table.footers(Read(None, history.head), found.appends)
    lake.engine.dispose()
