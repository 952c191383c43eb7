"""What the table is asked: a real catalog, with and without the table."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pyarrow
from pyiceberg.catalog import load_catalog

from lakeward.connectors.iceberg import catalog
from lakeward.platform.runtime import CATALOG, Lake
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.report import sources

SPEC = StreamSpec.model_validate({
    "id": "flights",
    "owner": "ops",
    "source": {"kafka": {"topics": ["flights"], "max_offsets_per_trigger": 10}},
    "sink": {"iceberg": {"table": "nyc.flights"}},
    "trigger": {"every": "10s"},
})  # fmt: skip


def test_a_table_that_is_not_there_is_distinguished_from_one_without_a_position(
    runtime, postgres, own_registry_url, tmp_path
) -> None:
    database = own_registry_url.rsplit("/", 1)[1]
    lake = Lake(
        host=postgres.host, port=postgres.port, database=database, user=postgres.user, warehouse=str(tmp_path / "w")
    )
    catalog.create_schema(lake, postgres.pgpass)
    known = runtime.model_copy(update={"lake": lake})

    def ask() -> tuple[bool | None, bool]:
        found = sources.ask(known, SPEC, {}, datetime(2026, 1, 1, tzinfo=UTC))
        assert found.position is None
        return found.table_answered, found.table_missing

    assert ask() == (True, True)
    with closing(load_catalog(CATALOG, **catalog.pyiceberg_properties(lake, postgres.pgpass))) as made:
        made.create_namespace("nyc")
        made.create_table("nyc.flights", schema=pyarrow.schema([("n", pyarrow.int64())]))
    assert ask() == (True, False)
    away = known.model_copy(update={"lake": lake.model_copy(update={"port": 1})})
    found = sources.ask(away, SPEC, {}, datetime(2026, 1, 1, tzinfo=UTC))
    assert (found.table_answered, found.table_missing) == (False, False)
