"""What a stream's session is told."""

from __future__ import annotations

from lakeward.driver.session import stream_conf
from lakeward.spec.stream import StreamSpec

SPEC = StreamSpec.model_validate({
    "id": "s", "owner": "o", "source": {"rate": {}}, "transform": {"sql": "SELECT * FROM source"},
    "sink": {"iceberg": {"table": "a.b"}}, "trigger": {"every": "1s"},
    "spark": {"spark.sql.shuffle.partitions": 7},
})  # fmt: skip
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def test_a_checkpoint_on_an_object_store_is_written_without_renames_and_another_with() -> None:
    assert stream_conf(SPEC, "s3a://lake/c")[MANAGER].endswith(".AbortableStreamBasedCheckpointFileManager")
    for place in ("", "/home/checkpoints", "file:///home/checkpoints"):
        assert MANAGER not in stream_conf(SPEC, place)
    assert stream_conf(SPEC, "s3a://lake/c")["spark.sql.shuffle.partitions"] == "7"
