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
        sink_position.of(site, spec, "recover")
    assert refused.value.why == "the position in its folder moves only with its batches"


def test_the_keys_a_stream_remembers_cannot_be_made_again(connected, runtime, backend) -> None:
    site = Runner(connected, runtime, author="ada", holder="test", backend=backend)
    spec = StreamSpec.model_validate({
        "id": "flights", "owner": "ops", "lineage": "rows",
        "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 5}},
        "decode": {"json": "id INT, at TIMESTAMP"}, "watermark": {"column": "at", "delay": "1h"},
        "deduplicate": {"keys": ["id"]}, "sink": {"iceberg": {"table": "n.t"}},
    })  # fmt: skip
    with pytest.raises(Refused, match="Cannot recover") as refused:
        sink_position.of(site, spec, "recover")
    assert "it keeps the keys of source to drop duplicates" in refused.value.why


def test_a_delta_table_is_refused_by_what_is_wrong_with_it_not_by_its_kind(connected, runtime, backend) -> None:
    site = Runner(connected, runtime, author="ada", holder="test", backend=backend)
    spec = StreamSpec.model_validate({
        "id": "flights", "owner": "ops", "lineage": "rows",
        "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 5}}, "sink": {"delta": {"table": "n.t"}},
    })  # fmt: skip
    with pytest.raises(Refused, match="Cannot recover") as missing:
        sink_position.of(site, spec, "recover")
    assert missing.value.why.startswith("Table n.t does not exist")
    with pytest.raises(Refused, match="Cannot import") as imported:
        sink_position.in_lake(site, spec, "import")
    assert "its sink is a Delta table" in imported.value.why
