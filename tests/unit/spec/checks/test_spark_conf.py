from __future__ import annotations

import pytest

from lakeward.spec.checks.spark_conf import FROZEN, ineffective, refusal


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("spark.master", "where a driver runs"),
        ("spark.submit.deployMode", "where a driver runs"),
        ("spark.app.name", "identity"),
        ("spark.jars.packages", "verified"),
        ("spark.driver.extraClassPath", "verified"),
        ("spark.sql.extensions", "extensions"),
        ("spark.sql.catalog.lake", "conf/lakeward.yaml"),
        ("spark.wap.id", "staging"),
        ("spark.sql.iceberg.handle-timestamp-without-timezone", "commit protocol"),
        ("spark.sql.streaming.checkpointLocation", "the location of a checkpoint follows"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.variable.substitute", "another"),
        ("spark.sql.streaming.stateStore.stateSchemaCheck", "would be misread"),
        ("spark.SQL.Catalog.lake", "conf/lakeward.yaml"),
        ("spark.sql.streaming.CHECKPOINTLOCATION", "the location of a checkpoint follows"),
        ("spark.hadoop.fs.s3a.secret.key", "secret"),
    ],
)
def test_settings_that_are_nobodys_to_give(key, words):
    assert words in (refusal(key) or "")
    assert words in (refusal(key, whole_driver=True) or "")


@pytest.mark.parametrize(
    "key",
    [
        "spark.driver.maxResultSize",
        "spark.executor.cores",
        "spark.ui.port",
        "spark.hadoop.x",
        "spark.extraListeners",
        "spark.python.worker.memory",
        "spark.sql.warehouse.dir",
        "spark.sql.queryExecutionListeners",
        "spark.sql.streaming.streamingQueryListeners",
        "spark.sql.UI.retainedExecutions",
    ],
)
def test_settings_of_a_whole_driver_stand_with_the_driver(key):
    assert "belongs to a whole driver" in (refusal(key) or "")
    assert refusal(key, whole_driver=True) is None


@pytest.mark.parametrize(
    "key", ["spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled", "spark.sql.ansi.enabled"]
)
def test_settings_of_a_stream(key):
    assert refusal(key) is None


def test_what_a_checkpoint_freezes_is_spelled_like_spark_does():
    assert all(key.startswith("spark.sql.") for key in FROZEN)


@pytest.mark.parametrize("key", ["spark.executor.cores", "spark.dynamicAllocation.enabled", "spark.task.maxfailures"])
def test_what_does_nothing_in_one_process_is_named(project, key):
    assert "has no effect" in (ineffective(key) or "")
    assert ineffective("spark.driver.maxResultSize") is None
    [problem] = [
        each
        for each in project({"conf/lakeward.yaml": f"drivers: {{d: {{spark: {{{key}: 1}}}}}}\n"}).problems
        if "spark" in each.path
    ]
    assert problem.severity == "warning"
    assert f"{key} has no effect" in problem.message
