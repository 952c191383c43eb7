"""A session of the Connect server is released once, in whatever thread the garbage collector runs."""

from __future__ import annotations

import gc

import pytest

from lakeward.connectors.spark.connect import session


def test_a_released_session_leaves_the_other_sessions_of_the_process_alone(connect_server):
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Executions

    with session(connect_server) as mine:
        assert mine.sql("SELECT 1").collect()
        with session(connect_server) as other:
            assert other.sql("SELECT 2").collect()
        assert mine.sql("SELECT 3").collect()
        pool = Executions._release_thread_pool_instance
        assert pool is not None
        # Its finalizer runs in a thread of the pool it would join, as the garbage collector may have it.
        ended = pool.submit(other.__del__)
        assert ended.result(timeout=60) is None
        assert Executions._release_thread_pool_instance is pool
        del other
        gc.collect()
        assert mine.sql("SELECT 4").collect()


def test_the_token_is_in_no_message(connect_server):
    from pyspark.errors import PySparkException

    token = connect_server.connect_token_file.read_text().strip()
    assert token
    with session(connect_server) as spark:
        with pytest.raises(PySparkException) as raised:
            spark.sql("SELECT nothing_there").collect()
        assert token not in str(raised.value)
        assert token not in str(spark.sql("SET").collect())
