"""What Spark says of a failed statement, as on-call reads it."""

from __future__ import annotations

import pytest

from lakeward.tables.act.server import plain

TASK = (
    "(java.lang.RuntimeException) org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage "
    "10.0 failed 1 times, most recent failure: Lost task 0.0 in stage 10.0 (TID 9) (localhost executor driver): "
)
CONFLICT = "(org.apache.iceberg.exceptions.ValidationException) Cannot commit, found new delete for replaced data file"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            TASK + "org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device\n"
            "\tat org.apache.hadoop.fs.RawLocalFileSystem.write(x.java:549)\n\tat java.base/x\n\t... 25 more",
            "the disk is full: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device",
        ),
        (CONFLICT + "\n\nJVM stacktrace:\norg.apache.iceberg.x\n\tat y", CONFLICT),
        (
            "[INTERNAL_ERROR] You hit a bug. SQLSTATE: XX000\n\nJVM stacktrace:\norg.apache.spark.SparkException\n"
            "\tat x\nCaused by: a.Wrapper: of\n\tat y\nCaused by: java.lang.NullPointerException: Cannot invoke z\n",
            "internal error of Spark: java.lang.NullPointerException: Cannot invoke z",
        ),
        (
            "Exception thrown in awaitResult: \n\nJVM stacktrace:\na\nCaused by: java.io.FileNotFoundException: x\n\t",
            "internal error of Spark: java.io.FileNotFoundException: x",
        ),
        ("[PARSE_SYNTAX_ERROR] near x.\n\n== SQL ==\nx y", "[PARSE_SYNTAX_ERROR] near x. == SQL == x y"),
    ],
)  # fmt: skip
def test_no_stack_trace_and_no_task_stands_before_the_cause(said: str, words: str) -> None:
    assert plain(said) == words
