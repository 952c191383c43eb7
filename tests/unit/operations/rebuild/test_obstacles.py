"""What cannot be rebuilt, by reason."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.connectors.iceberg import rename
from lakeward.operations.rebuild.obstacles import suited
from lakeward.platform.errors import Refused
from lakeward.spec.model.stream import StreamSpec

_KAFKA = {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 1}}
_TABLE = {"iceberg": {"table": "a.t"}}


def _spec(**more: Any) -> StreamSpec:
    whole = {
        "id": "s", "owner": "o", "source": _KAFKA, "decode": {"json": "n INT, v INT"}, "quarantine": {"table": "a.q"},
        "transform": {"sql": "SELECT * FROM source"}, "sink": _TABLE, "trigger": {"every": "1s"}, **more,
    }  # fmt: skip
    return StreamSpec.model_validate({name: value for name, value in whole.items() if value is not None})


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"sink": {"delta": {"table": "a.t"}}}, "its sink is delta; rebuilds support Iceberg tables"),
        ({"sink": {"iceberg": {"table": "a.t", "mode": "complete"}},
          "transform": {"sql": "SELECT n, count(*) AS c FROM source GROUP BY n"}, "lineage": "none"},
         "mode complete replaces all rows"),
        ({"source": {"rate": {"rows_per_second": 1}}, "decode": None}, "its source is rate; rebuilds support"),
        ({"source": None, "decode": None, "sources": {"a": {**_KAFKA, "decode": {"json": "n INT"}}, "b": _KAFKA},
          "transform": {"sql": "SELECT n FROM a UNION ALL SELECT 1 AS n FROM b"}}, "it has several sources"),
        ({"transform": {"sql": "SELECT n, count(*) AS c FROM source GROUP BY n"}, "lineage": "none",
          "sink": {"iceberg": {"table": "a.t", "mode": "upsert", "keys": ["n"]}}}, "it keeps state"),
    ],
)  # fmt: skip
def test_what_is_in_the_way_is_named(more: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as refused:
        suited(_spec(**more))
    assert refused.value.why.startswith(why)


def test_what_can_be_rebuilt() -> None:
    suited(_spec())
    suited(_spec(sink={"iceberg": {"table": "a.t", "mode": "upsert", "keys": ["n"], "delete_when": "v < 0"}}))


def test_a_catalog_that_renames_one_table_at_a_time_is_refused() -> None:
    catalog: Any = object()
    with pytest.raises(Refused, match="renames one table at a time"):
        rename.swappable(catalog, "s")
