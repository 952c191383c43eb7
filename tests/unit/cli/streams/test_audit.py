"""What the audit refuses, and why."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.cli.streams.audit import audit
from lakeward.platform.errors import Refused
from lakeward.spec.model.stream import StreamSpec


@pytest.mark.parametrize(
    ("sink", "why"),
    [
        ({"files": {"path": "/lake/flights", "format": "parquet"}}, "its batches land exactly once in a folder"),
        ({"console": {}}, "delivery is at least once"),
    ],
)
def test_a_sink_without_rows_to_compare_is_refused_with_its_own_promise(sink: dict[str, Any], why: str) -> None:
    spec = StreamSpec.model_validate({
        "id": "flights", "owner": "ops", "sink": sink, "decode": {"json": "n INT"},
        "source": {"kafka": {"topics": ["flights"]}}, "transform": {"sql": "SELECT * FROM source"},
    })  # fmt: skip
    with pytest.raises(Refused) as raised:
        audit(None, spec)  # type: ignore[arg-type]  # refused before any address is read
    assert why in raised.value.why
