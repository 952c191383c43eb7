"""What the driver leaves in a real registry."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import time_machine
from sqlalchemy import func, select

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Totals
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.driver.core_time import CoreTime
from lakeward.driver.listener import listener_of
from lakeward.driver.recorder import Recorder
from lakeward.engine.batch import FinishedBatch
from lakeward.platform.errors import DependencyDown
from lakeward.registry import batches, events, lag_history, observations

PROGRESS = {
    "id": "q", "runId": "r", "durationMs": {"addBatch": 1250, "triggerExecution": 1500},
    "stateOperators": [{"numRowsDroppedByWatermark": 3, "numRowsTotal": 7, "memoryUsedBytes": 900,
                        "customMetrics": {"rocksdbSstFileSize": 50}}],
}  # fmt: skip


def done(stream: str, batch: int, *, already: bool = False) -> FinishedBatch:
    running = RunningBatch("q", batch, {"source": "-"}, {"source": '{"t":{"0":5}}'})
    outcome = BatchResult(
        running, Totals(landed=4), filtered=0, seq=batch + 1, snapshot=77, already=already, stage_ms=200, publish_ms=40,
    )  # fmt: skip
    return FinishedBatch(stream, 1, batch, outcome, 5, 1, "2013-01-01T07:30:00.000Z", time.monotonic(), 0.25)


def _until(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return value


def test_a_batch_its_late_rows_and_the_newest_state(connect: Any, driver: str, stream: str) -> None:
    recorder = Recorder(connect, driver)
    recorder.start()
    recorder.note_batch(done(stream, 0))
    recorder.note_progress(stream, {**PROGRESS, "batchId": 0}, 0.75)
    recorder.event("stream", stream, "started", "started", n=1)
    recorder.note(stream, lag_records=9, lag_s=1.5)
    recorder.close()
    with connect() as connection:
        [row] = batches.newest(connection, stream)
        seen = observations.latest(connection)[stream]
        [line] = events.newest(connection, "stream", stream)
    assert (row.seq, row.landed, row.late_dropped, row.core_s, row.replayed) == (1, 4, 3, 0.75, False)
    assert row.end_offsets == {"source": '{"t":{"0":5}}'}
    phases = {"addBatch": 1.25, "triggerExecution": 1.5, "stage": 0.2, "publish": 0.04}
    assert (row.phases, seen.watch["phases"]) == (phases, phases)
    assert (seen.batch_id, seen.seq, seen.lag_records, seen.progress["runId"]) == (0, 1, 9, "r")
    assert seen.complete_through.isoformat() == "2013-01-01T07:30:00+00:00"
    assert line.fields == {"n": 1}


def test_late_records_that_are_kept_are_counted_by_the_batch_and_not_by_spark(
    connect: Any, driver: str, stream: str
) -> None:
    """Spark counts the groups of a batch, of which a record may have several, or share one."""
    recorder = Recorder(connect, driver)
    for number, late in ((0, 5), (1, 0)):
        recorder.note_batch(replace(done(stream, number), late=late))
        recorder.note_progress(stream, {**PROGRESS, "batchId": number})
    recorder.note_batch(replace(done(stream, 2), late=1))  # without Spark's report
    recorder.start()
    recorder.close()
    with connect() as connection:
        assert {row.batch_id: row.late_dropped for row in batches.newest(connection, stream)} == {0: 5, 1: 0, 2: 1}
        [(generation, (records, since))] = batches.late(connection, stream).items()
    assert (generation, records) == (1, 6)
    assert since is not None


def test_a_replayed_batch_does_not_count_again(connect: Any, driver: str, stream: str) -> None:
    recorder = Recorder(connect, driver)
    for already in (False, True):
        recorder.note_batch(done(stream, 0, already=already))
        recorder.note_progress(stream, {**PROGRESS, "batchId": 0})
    recorder.start()
    recorder.close()
    with connect() as connection:
        [row] = batches.newest(connection, stream)
        assert row.replayed is True
        assert batches.totals(connection, stream)["landed"] == 4


def test_an_outage_of_the_registry_loses_nothing_that_fits(connect: Any, driver: str, stream: str) -> None:
    away = True

    def reach() -> Any:
        if away:
            raise DependencyDown("away")
        return connect()

    recorder = Recorder(reach, driver)
    recorder.start()
    for batch in range(3):
        recorder.note_batch(done(stream, batch))
        recorder.note_progress(stream, {**PROGRESS, "batchId": batch})
    time.sleep(0.2)
    recorder.note(stream, lag_records=1)
    away = False
    recorder.close()
    with connect() as connection:
        assert [row.batch_id for row in reversed(batches.newest(connection, stream))] == [0, 1, 2]
        seen = observations.latest(connection)[stream]
    assert (seen.batch_id, seen.lag_records) == (2, 1)


def test_one_bad_record_does_not_stop_the_others(connect: Any, driver: str, stream: str) -> None:
    recorder = Recorder(connect, driver)
    recorder.note(stream, no_such_column=1)
    recorder.start()
    _until(lambda: not recorder._latest)
    recorder.note(stream, lag_records=2)
    recorder.close()
    with connect() as connection:
        assert observations.latest(connection)[stream].lag_records == 2


def test_what_only_the_driver_sees_is_written_once_in_a_while(connect: Any, driver: str, stream: str) -> None:
    recorder = Recorder(connect, driver)
    recorder.note_batch(done(stream, 0))
    recorder.note_progress(stream, {**PROGRESS, "batchId": 0})
    recorder.watch(stream, partitions=[{"partition": 0}])
    recorder._flush()
    recorder.watch(stream, partitions=[{"partition": 1}])
    recorder.note(stream, lag_records=3)
    recorder._flush()
    with connect() as connection:
        seen = observations.latest(connection)[stream]
    assert seen.lag_records == 3
    assert seen.watch["partitions"] == [{"partition": 0}], "the second one waits until its time has come"
    assert seen.watch["phases"] == {"addBatch": 1.25, "triggerExecution": 1.5, "stage": 0.2, "publish": 0.04}
    assert seen.watch["state"] == {"rows": 7, "bytes": 900, "disk_bytes": 50}
    recorder._watch_due.clear()
    recorder._flush()
    with connect() as connection:
        assert observations.latest(connection)[stream].watch["partitions"] == [{"partition": 1}]


def test_lag_and_state_are_recorded_over_time_once_a_minute(connect: Any, driver: str, stream: str) -> None:
    recorder = Recorder(connect, driver)
    recorder.note_batch(done(stream, 0))
    recorder.note_progress(stream, {**PROGRESS, "batchId": 0})
    recorder._flush()
    for records in (3, 4):
        recorder.note(stream, lag_records=records, lag_s=2.5)
        recorder._flush()
    recorder._history_due.clear()
    recorder.note(stream, lag_records=None, lag_s=None)  # not measurable now
    recorder._flush()
    with connect() as connection:
        found = connection.execute(select(lag_history.lag_history).order_by(lag_history.lag_history.c.at)).all()
    assert [(row.lag_records, row.lag_s, row.state_rows, row.state_bytes) for row in found if row.stream == stream] == [
        (3, 2.5, 7, 900),
        (None, None, 7, 900),
    ]


def test_a_lag_that_could_not_be_recorded_is_recorded_when_the_registry_answers(
    connect: Any, driver: str, stream: str
) -> None:
    up = False

    def sometimes() -> Any:
        if not up:
            raise DependencyDown("The registry does not answer", why="a test", next="lakeward stack status")
        return connect()

    recorder = Recorder(sometimes, driver)
    recorder.note(stream, lag_records=3, lag_s=2.5)
    assert not recorder._flush()
    up = True
    assert recorder._flush()
    with connect() as connection:
        assert [moment.lag_records for moment in lag_history.newest(connection, stream, timedelta(hours=1))] == [3]


def test_a_clock_two_hours_off_does_not_make_a_commit_old_or_of_the_future(
    connect: Any, driver: str, stream: str
) -> None:
    recorder = Recorder(connect, driver)
    with connect() as connection:
        began = connection.execute(select(func.now())).scalar_one()
    for batch, off in enumerate((timedelta(hours=2), timedelta(hours=-2))):
        with time_machine.travel(began + off, tick=True):
            recorder.note_batch(done(stream, batch))
            recorder.note_progress(stream, {**PROGRESS, "batchId": batch})
            recorder._flush()
        with connect() as connection:
            seen = observations.latest(connection)[stream]
            row = batches.newest(connection, stream, limit=1)[0]
        assert 0 <= seen.commit_age_s < 60
        assert abs((row.committed_at - began).total_seconds()) < 60


def test_a_registry_one_version_older_gets_everything_it_has_a_column_for(
    older_registry: Any, driver: str, make_stream: Any
) -> None:
    stream = make_stream(older_registry, driver)
    recorder = Recorder(older_registry, driver)
    recorder.watch(stream, partitions=[])
    recorder.note_batch(done(stream, 0))
    recorder.note_progress(stream, {**PROGRESS, "batchId": 0})
    recorder._flush()
    with older_registry() as connection:
        assert connection.exec_driver_sql("SELECT seq FROM observations").scalars().all() == [1]
        assert connection.exec_driver_sql("SELECT seq FROM batches").scalars().all() == [1]


def test_a_new_start_of_a_query_forgets_how_much_waited_for_the_one_before(
    connect: Any, driver: str, stream: str
) -> None:
    recorder = Recorder(connect, driver)
    recorder.note(stream, query_state="stopped", lag_records=0, lag_s=0.0)
    listener_of(stream, recorder, cast(CoreTime, None)).onQueryStarted(SimpleNamespace(id="q", runId="r"))
    recorder.close()
    with connect() as connection:
        seen = observations.latest(connection)[stream]
    assert (seen.query_state, seen.lag_records, seen.lag_s) == ("running", None, None)


def test_the_totals_of_the_position_are_what_metrics_count(connect: Any, driver: str, stream: str) -> None:
    recorder = Recorder(connect, driver)
    recorder.start()
    running = RunningBatch("q", 1, {"source": "-"}, {"source": '{"t":{"0":5}}'})
    totals = Totals(consumed=50, landed=40, quarantined=3, filtered=7)
    outcome = BatchResult(running, Totals(landed=4), seq=2, snapshot=77, totals=totals)
    recorder.note_batch(FinishedBatch(stream, 1, 1, outcome, 5, 1, None, time.monotonic(), 0.25))
    recorder.close()
    with connect() as connection:
        watch = observations.latest(connection)[stream].watch
    assert watch is not None
    assert watch["totals"] == {"consumed": 50, "landed": 40, "quarantined": 3, "filtered": 7, "skipped": 0}
