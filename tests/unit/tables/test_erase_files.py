"""Rows are erased from every file of a table whose columns, fields and partitions have any name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakeward.connectors.file_access import FileAccess
from lakeward.platform.runtime import Lake
from lakeward.tables.erase import files
from lakeward.tables.erase.fields import written
from lakeward.tables.erase.where import parse

COLUMNS = ("geo.lat", ".hidden", "[0]", 'a`b"c', "größe e\u0301 😀", "select", "a;--b", "100%", "{x} \\y")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "lake"))
    made.create_namespace("n")
    yield made
    made.close()


def batch(keys: range) -> pa.Table:
    """Rows whose every column and innermost field is the row's key."""
    rows = [
        {**dict.fromkeys(COLUMNS, key), "at.x": {".in ner": {"[k]": key, "text": f"t{key}"}, "other": key}}
        for key in keys
    ]
    return pa.Table.from_pylist(rows)


INNER = ("at.x", ".in ner", "[k]")


@pytest.mark.parametrize(
    ("path", "partition"),
    [(INNER, "geo.lat"), (("geo.lat",), "größe e\u0301 😀"), *(((name,), "") for name in COLUMNS[:5])],
    ids=repr,
)
def test_from_every_file(catalog: SqlCatalog, path: tuple[str, ...], partition: str) -> None:
    table = catalog.create_table("n.t", batch(range(1)).schema)
    if partition:
        with table.update_spec() as change:
            change.add_identity(partition)
    for first in (0, 4, 8):
        catalog.load_table("n.t").append(batch(range(first, first + 4)))

    def load() -> Any:
        return catalog.load_table("n.t")

    access = FileAccess(Lake(warehouse=str(catalog.properties["warehouse"])))
    where = parse(f"{written(path)} IN (5, 6) OR {written(path)} = 0", load().schema(), "n.t")
    assert files.obstacle(load()) == ""
    before = files.held(load(), where)
    assert len(before) == (3 if partition else 2)
    assert files.live(load(), before, where).num_rows == 3
    assert files.rewrite(load, where, lambda table, rows: {}, (), access) == 3
    files.forget(load, set(), lambda table: {}, access)
    files.delete(load(), access)
    assert files.held(load(), where) == set() == {*files.strays(load(), where, access)}
    left = sorted(row["at.x"][".in ner"]["[k]"] for row in load().scan().to_arrow().to_pylist())
    assert left == [key for key in range(12) if key not in (0, 5, 6)]
    root = Path(table.location().removeprefix("file://"))
    assert not {"t0", "t5", "t6"} & {
        row["at_x2Ex"]["_x2Ein_x20ner"]["text"]
        for file in root.rglob("*.parquet")
        for row in pq.ParquetFile(file).read().to_pylist()
    }
