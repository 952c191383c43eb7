"""State against a changed query: what deploy says beforehand is what a running query then meets."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.engine.checkpoint import files, state_errors, state_store
from lakeward.platform.errors import Blocked
from lakeward.spec.deploy.plan import checkpoint_obstacles
from lakeward.spec.model.stream import StreamSpec

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_state_goes_on_where_deploy_says_it_fits_and_blocks_with_words_where_it_does_not(lab: Any) -> None:
    topic = lab.topic()
    sink = {"iceberg": {"table": f"{lab.namespace}.t", "mode": "upsert", "keys": ["s"]}}

    def of(select: str) -> dict[str, Any]:
        return lab.spec(
            topic, transform={"sql": f"SELECT {select} FROM source GROUP BY s"}, sink=sink, lineage="none",
            spark={"spark.sql.shuffle.partitions": 1},
        )  # fmt: skip

    def obstacles(after: dict[str, Any]) -> list[str]:
        return list(checkpoint_obstacles(StreamSpec.model_validate(first), StreamSpec.model_validate(after)))

    def counted() -> dict[str, int]:
        return {row["s"]: row["c"] for row in lab.rows()}

    first = of("s, count(*) AS c")
    lab.produce(topic, [{"n": 5, "s": "a"}, {"n": 5, "s": "a"}, {"n": 5, "s": "b"}])
    lab.run(first, 3)
    assert counted() == {"a": 2, "b": 1}

    fits = of("s, count(*) * 10 AS c")
    assert obstacles(fits) == []
    lab.produce(topic, [{"n": 5, "s": "a"}])
    lab.run(fits, 1)
    assert counted() == {"a": 30, "b": 1}, "it went on counting where it was"

    other = of("s, count(*) + sum(n) AS c")
    [obstacle] = obstacles(other)
    assert "has the aggregates COUNT(*), SUM(n), the state was made by COUNT(*); its state would not fit" in obstacle
    lab.produce(topic, [{"n": 5, "s": "b"}])
    error = lab.fail(other)
    assert isinstance(error, Blocked)
    assert (error.reason, error.what) == (
        state_errors.REASON,
        f"The state of stream {first['id']} does not fit generation 1",
    )
    assert "its values are (count LONG), this generation's would be (count LONG, sum LONG)" in error.why
    assert f"lakeward streams rollback {first['id']}" in error.next
    lab.started.clear()
    lab.run(first, 1)
    assert counted() == {"a": 30, "b": 2}, "the generation before goes on, and the batch that failed is landed by it"

    folder = lab.wanted(first).checkpoint
    frozen = state_store.frozen(files.read(files.files_of(lab.spark, folder), folder).conf)
    assert frozen["spark.sql.shuffle.partitions"] == "1"
    assert frozen["spark.sql.streaming.stateStore.providerClass"].endswith("RocksDBStateStoreProvider")
    assert "spark.sql.streaming.multipleWatermarkPolicy" in frozen
