"""Settings that save work. Spark takes one it does not know without a word: a new version of it could undo them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.engine.session import BATCH_CONF, LOCAL_CHECKPOINT_FILES


def test_spark_knows_every_setting(spark: Any) -> None:
    known = getattr(getattr(spark._jvm.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$")
    for key in BATCH_CONF:
        assert known.getConfigEntry(key) is not None, key


def test_a_checkpoint_on_a_local_disk_is_written_by_the_named_class(spark: Any, tmp_path: Path) -> None:
    hadoop = spark._jvm.org.apache.hadoop.conf.Configuration()
    for key, value in LOCAL_CHECKPOINT_FILES.items():
        hadoop.set(key, value)
    managers = spark._jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    made = managers.create(spark._jvm.org.apache.hadoop.fs.Path(str(tmp_path)), hadoop)
    assert [made.getClass().getName()] == list(LOCAL_CHECKPOINT_FILES.values())


def test_what_is_kept_is_planned_in_the_session_it_is_made_in(spark: Any) -> None:
    frame = spark.range(3).selectExpr("id * 2 AS twice").persist()
    try:
        manager = spark._jsparkSession.sharedState().cacheManager()
        kept = manager.lookupCachedData(frame._jdf).get().cachedRepresentation()
        assert kept.cacheBuilder().cachedPlan().session().equals(spark._jsparkSession), "not in a clone"
    finally:
        frame.unpersist()


def test_a_name_of_java_is_asked_for_once(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client, asked = spark._jvm._gateway_client, []
    send = client.send_command
    monkeypatch.setattr(
        client, "send_command", lambda command, *given: (asked.append(command), send(command, *given))[1]
    )
    first = spark._jvm.org.apache.spark.sql.streaming.GroupStateTimeout
    before = len(asked)
    assert spark._jvm.org.apache.spark.sql.streaming.GroupStateTimeout is first
    assert len(asked) == before
    for _ in range(2):  # a class may come with a jar later
        assert type(spark._jvm.org.apache.spark.NoSuchClass).__name__ == "JavaPackage"
    assert len(asked) == before + 2
