"""What a stream's session is told."""

from __future__ import annotations

from lakeward.engine.session import checkpoint_files, stream_conf
from lakeward.spec.model.stream import StreamSpec

SPEC = StreamSpec.model_validate({
    "id": "s", "owner": "o", "source": {"rate": {}}, "transform": {"sql": "SELECT * FROM source"},
    "sink": {"iceberg": {"table": "a.b"}}, "trigger": {"every": "1s"},
    "spark": {"spark.sql.shuffle.partitions": 7},
})  # fmt: skip
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def test_a_checkpoint_is_written_as_its_store_does_it_best() -> None:
    for place in ("/home/checkpoints", "file:///home/checkpoints"):
        assert checkpoint_files(place)[MANAGER].endswith(".FileSystemBasedCheckpointFileManager")
        assert MANAGER not in stream_conf(SPEC, place), "its driver's"
    assert checkpoint_files("hdfs://name/checkpoints") == {}, "its rename is Spark's own choice"
    assert stream_conf(SPEC, "s3a://lake/c")[MANAGER].endswith(".AbortableStreamBasedCheckpointFileManager")
    assert checkpoint_files("s3a://lake") == {}, "or a checkpoint that stayed on a local disk could not be written"
    assert stream_conf(SPEC, "s3a://lake/c")["spark.sql.shuffle.partitions"] == "7"
