"""A rebuild's proof: every record of the fill's range is in the new table or in quarantine under the fill's name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakeward.connectors.commit_protocol.position import Position, Totals
from lakeward.operations.rebuild.verification import prove
from lakeward.platform.errors import Unhealthy


def _rows(offsets: list[int], **more: str) -> pa.Table:
    size = len(offsets)
    told = {"_kafka_topic": ["t"] * size, "_kafka_partition": pa.array([0] * size, pa.int32())}
    return pa.table({**told, "_kafka_offset": offsets, **{name: [each] * size for name, each in more.items()}})


def test_rows_a_backfill_set_aside_are_found_when_its_table_is_taken_over(tmp_path: Path) -> None:
    with closing(SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))) as catalog:
        catalog.create_namespace("a")
        made = {}
        for name, rows in {
            "a.t": _rows([0, 1]),
            "a.new": _rows([0, 1, 3]),
            "a.mine": _rows([2], stream="s@backfill-1 into a.new"),
            "a.others": _rows([2], stream="s@backfill-1 into a.elsewhere"),
        }.items():
            made[name] = catalog.create_table(name, rows.schema)
            made[name].append(rows)
        at = Position(
            seq=1, query_id="", batch=0, begin={"source": '{"t":{"0":0}}'}, end={"source": '{"t":{"0":4}}'},
            totals=Totals(consumed=4, landed=3, quarantined=1),
        )  # fmt: skip
        old, new = made["a.t"], made["a.new"]
        found = prove("s", old, new, "s@backfill-1", at, "source", made["a.mine"], rows=True)
        assert found.data["missing"] == 0
        with pytest.raises(Unhealthy, match=r"a\.new") as wrong:
            prove("s", old, new, "s@backfill-1", at, "source", made["a.others"], rows=True)
        assert "1 are missing" in wrong.value.why
