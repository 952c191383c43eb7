"""Why rows of a table cannot go aside, by the specs of a project."""

from __future__ import annotations

from typing import Any

from lakeward.spec.checks.quarantine import obstacle_of
from lakeward.spec.model.stream import StreamSpec


def spec(id: str, table: str = "a.t", **more: Any) -> StreamSpec:
    made: dict[str, Any] = {
        "id": id, "owner": "me", "source": {"kafka": {"topics": ["t"]}}, "decode": {"json": "n INT"},
        "transform": {"sql": "SELECT * FROM source"}, "sink": {"iceberg": {"table": table}},
        "quarantine": {"table": "a.q"}, "trigger": {"every": "1s"}, **more,
    }  # fmt: skip
    return StreamSpec.model_validate({key: value for key, value in made.items() if value is not None})


def test_every_stream_that_lands_there_must_be_suited_and_nobody_may_read_it_as_it_grows() -> None:
    reader = spec("r", "a.other", source={"iceberg": {"table": "a.t", "max_rows_per_trigger": 9}}, decode=None)
    assert obstacle_of("a.t", [spec("s"), spec("o", "a.other")]) == ""
    assert obstacle_of("a.t", [spec("o", "a.other")]) == "no stream here lands in it"
    assert obstacle_of("a.t", [spec("s"), spec("n", lineage="none")]).startswith("stream n: lineage is none")
    assert obstacle_of("a.t", [spec("s"), reader]).endswith("blocks the streams that read a.t: r")
    assert obstacle_of("a.t", [spec("s"), reader], readers=()) == "", "who reads it is known better than by the files"
