"""What a position may not be moved over."""

from __future__ import annotations

import pytest

from lakeward.operations import sink_position
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Refused
from lakeward.spec.model.stream import StreamSpec


def test_the_position_of_a_folder_stays_where_its_batches_left_it(connected, runtime, backend) -> None:
    site = Runner(connected, runtime, author="ada", holder="test", backend=backend)
    spec = StreamSpec.model_validate({
        "id": "flights", "owner": "ops", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 5}},
        "sink": {"files": {"path": "/out", "format": "json"}},
    })  # fmt: skip
    with pytest.raises(Refused) as refused:
        sink_position.of(site, spec, "recovered")
    assert refused.value.why == "the position in its folder is moved by its batches alone"


def test_the_keys_a_stream_remembers_cannot_be_made_anew(connected, runtime, backend) -> None:
    site = Runner(connected, runtime, author="ada", holder="test", backend=backend)
    spec = StreamSpec.model_validate({
        "id": "flights", "owner": "ops", "lineage": "rows",
        "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 5}},
        "decode": {"json": "id INT, at TIMESTAMP"}, "watermark": {"column": "at", "delay": "1h"},
        "deduplicate": {"keys": ["id"]}, "sink": {"iceberg": {"table": "n.t"}},
    })  # fmt: skip
    with pytest.raises(Refused, match="cannot be recovered") as refused:
        sink_position.of(site, spec, "recovered")
    assert "it remembers the keys of source: without them a duplicate would land" in refused.value.why
