"""Landing exactly once in PostgreSQL, on a real server and real Spark; the batches are planned by the tests."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest
import seeds
from delta_rig import ROWS, at
from postgres_rig import Planned, Rig
from seeds import seed

from lakeward.connectors.commit_protocol import audit as counting
from lakeward.connectors.commit_protocol import writer as writer_of
from lakeward.connectors.postgres import audit, connection
from lakeward.platform.errors import Blocked, DependencyDown, Fenced, SpecError, Transient
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from collections.abc import Callable


OWN = "application_name = 'lakeward flights' AND datname = current_database()"
"""The connections of the writer; the server has databases of other tests, too."""


class Died(RuntimeError):
    pass


def die() -> None:
    raise Died


def test_rows_and_position_are_there_together_or_not_at_all(rig: Rig) -> None:
    rig.create()
    with failpoints.on("before-publish", die), pytest.raises(Died):
        rig.land(0)
    assert (rig.values(), rig.state().raw) == ([], None)
    with failpoints.on("after-publish", die), pytest.raises(Died):
        rig.land(0)
    held = rig.writer()  # a connection that it kept would be seen below
    landed = [rig.land(0), rig.land(1, held), rig.land(1)]

    assert [each.already for each in landed] == [True, False, True]
    assert rig.values() == list(range(2 * ROWS))
    position = rig.position()
    assert (position.seq, position.batch, position.totals.landed) == (2, 1, 2 * ROWS)
    assert position.begin == {"source": at(0)}
    assert rig.sql(f"SELECT count(*) FROM pg_stat_activity WHERE {OWN}") == [(0,)]
    with closing(connection.connect(rig.database, rig.pgpass, "audit")) as asked:
        found = counting.audit(audit.scan(asked, rig.place), "flights", position)
    assert (found.clean, found.landed) == (True, 2 * ROWS)
    rig.sql('INSERT INTO {t} SELECT * FROM {t} WHERE "_kafka_offset" = 1')
    rig.sql('DELETE FROM {t} WHERE "_kafka_offset" = 2')
    with closing(connection.connect(rig.database, rig.pgpass, "audit")) as asked:
        found = counting.audit(audit.scan(asked, rig.place), "flights", position)
    assert (found.missing, found.duplicates) == (1, 1)


def test_the_server_is_waited_for_and_a_lost_connection_costs_a_new_try(rig: Rig) -> None:
    rig.create()
    killed: list[int] = []

    def kill() -> None:
        if not killed:
            found = rig.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OWN}")
            killed.append(len(found))

    writer = rig.writer()
    with failpoints.on("before-publish", kill):
        assert rig.land(0, writer).counts.landed == ROWS
    assert killed == [1]
    assert rig.values() == list(range(ROWS))
    rig.database = rig.database.model_copy(update={"port": 1})
    with pytest.raises(DependencyDown, match="PostgreSQL does not answer"):
        rig.land(1)


def test_a_zombie_writes_nothing_more(rig: Rig) -> None:
    rig.create()
    old = rig.writer()
    rig.land(0, old)

    seen: list[bool] = []

    def overtaken() -> None:
        if not seen:
            seen.append(True)
            rig.land(1)

    with failpoints.on("before-publish", overtaken), pytest.raises(Fenced):
        rig.land(1, old)
    with pytest.raises(Fenced):
        rig.land(2, old)
    assert rig.values() == list(range(2 * ROWS))


def test_a_driver_stopped_in_the_middle_holds_nobody_up(rig: Rig) -> None:
    """Whatever it holds, it is not the position's row: its successor lands the batch while it stands still."""
    rig.create()
    seen: list[bool] = []

    def stopped() -> None:
        if not seen:
            seen.append(True)
            assert rig.land(0, rig.writer()).counts.landed == ROWS

    with failpoints.on("before-publish", stopped), pytest.raises(Fenced):
        rig.land(0, rig.writer(query="another"))
    assert rig.values() == list(range(ROWS))


@pytest.mark.seeded
@pytest.mark.timeout(600)
def test_two_writers_land_each_batch_once(rig: Rig) -> None:
    """A driver and its zombie hold the same batches; sleeps fall between check, staging and publication."""
    rig.create()
    seqs = 6 if os.environ.get(seeds.VARIABLE) else 4
    chance = random.Random(seed(11))
    outcomes, failures, barrier = Counter[str](), list[BaseException](), threading.Barrier(2)

    def land_all() -> None:
        session = rig.spark.newSession()
        try:
            for batch in range(seqs):
                barrier.wait(120)
                outcomes[_raced(rig, rig.writer(session), batch)] += 1
        except BaseException as error:  # noqa: BLE001  # shown by the test, which joins the threads
            failures.append(error)
            barrier.abort()

    def pause() -> None:
        time.sleep(chance.uniform(0, 0.1))

    threads = [threading.Thread(target=land_all) for _ in range(2)]
    with failpoints.on("after-check", pause), failpoints.on("before-publish", pause):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures, "\n".join(str(failure) for failure in failures)
    assert rig.values() == list(range(ROWS * seqs)), outcomes
    assert outcomes["landed"] == seqs, "each seq is published by exactly one of the two"
    assert (rig.position().seq, rig.position().totals.landed) == (seqs, ROWS * seqs)


def _raced(rig: Rig, writer: Planned, batch: int) -> str:
    while True:
        try:
            return "already" if rig.land(batch, writer).already else "landed"
        except Fenced:
            return "fenced"
        except Transient:
            continue


def _renamed(rig: Rig) -> None:
    rig.sql("ALTER TABLE {t} RENAME TO other")


def _made_anew(rig: Rig) -> None:
    rig.sql("CREATE TABLE keep (LIKE {t}); DROP TABLE {t}; ALTER TABLE keep RENAME TO \"Flights\"; "
            "ALTER TABLE \"Flights\" SET SCHEMA served")  # fmt: skip


def _dropped(rig: Rig) -> None:
    rig.sql("DROP TABLE {t}")


def _unlogged(rig: Rig) -> None:
    rig.sql("ALTER TABLE {t} SET UNLOGGED")


def _older(rig: Rig) -> None:
    """Rows and position as they were a batch ago, as a restored backup has them."""
    rig.sql('DELETE FROM {t} WHERE "_kafka_offset" >= %s', ROWS)
    rig.sql("UPDATE {p} SET position = %s", rig.before)  # type: ignore[attr-defined]  # set by the test


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (_renamed, "table-renamed", 'ALTER TABLE "served"."other" RENAME TO "Flights"'),
        (_made_anew, "table-replaced", "SET table_oid = "),
        (_dropped, "table-missing", "backup"),
        (_unlogged, "unlogged", "SET LOGGED"),
        (_older, "gap", "recover"),
    ],
)
def test_what_was_done_to_the_table_behind_our_back_blocks(
    rig: Rig, change: Callable[[Rig], None], reason: str, words: str
) -> None:
    rig.create()
    rig.land(0)
    rig.before = rig.state().raw  # type: ignore[attr-defined]  # for the change that needs it
    rig.land(1)
    change(rig)
    with pytest.raises(Blocked) as caught:
        rig.land(2)
    assert caught.value.reason == reason
    assert words in caught.value.next


def test_two_streams_append_to_one_table_and_a_position_is_each_ones_own(rig: Rig) -> None:
    rig.create()
    rig.land(0)
    other = rig.writer(bounds={0: (100, 102)})
    other.stream = "other"
    rig.land(0, other)
    rig.land(1)
    assert rig.values() == [*range(2 * ROWS), 100, 101]
    assert rig.sql("SELECT stream FROM {p} ORDER BY 1") == [("flights",), ("other",)]


KEYED = {"k": "string", "_kafka_offset": "bigint", "v": "int"}


def test_the_newest_row_of_a_key_takes_the_place_of_the_old(rig: Rig) -> None:
    """Two columns of a key, one of which may be null, against what a batch job makes of all records."""
    rig.create({**KEYED, "k2": "int"}, keys=("k", "k2"))
    chance = random.Random(7)
    expected: dict[tuple[str, int | None], tuple[int, int]] = {}
    for batch in range(3):
        records = [
            (chance.choice("abc"), offset, chance.randrange(99), chance.choice([1, None]))
            for offset in range(batch * 9, batch * 9 + 9)
        ]
        expected |= {(k, k2): (offset, v) for k, offset, v, k2 in records}
        chance.shuffle(records)
        frame = rig.spark.createDataFrame(records, "k STRING, _kafka_offset BIGINT, v INT, k2 INT").repartition(2)
        writer = rig.writer(keys=("k", "k2"), bounds={batch: (batch * 9, batch * 9 + 9)})
        landed = writer.land(frame, batch)
        assert landed.counts.landed == len({(k, k2) for k, _, _, k2 in records})
    found = rig.sql('SELECT k, k2, "_kafka_offset", v FROM {t}')
    assert {(k, k2): (offset, v) for k, k2, offset, v in found} == expected
    assert len(found) == len(expected)
    assert rig.position().mode == "upsert"


def test_an_older_row_does_not_take_the_place_of_a_newer_one(rig: Rig) -> None:
    rig.create({"k": "string", "at": "int", "v": "int"}, keys=("k",))
    for batch, records in enumerate([[("a", 5, 1), ("a", 3, 2), ("b", None, 3)], [("a", 4, 4), ("b", 1, 5)]]):
        writer = rig.writer(keys=("k",), order_by="at")
        writer.land(rig.spark.createDataFrame(records, "k STRING, at INT, v INT"), batch)
    assert sorted(rig.sql("SELECT k, at, v FROM {t}")) == [("a", 5, 1), ("b", 1, 5)]


def test_a_key_that_comes_twice_without_an_order_is_refused(rig: Rig) -> None:
    rig.create({"k": "string", "v": "int"}, keys=("k",))
    with pytest.raises(SpecError, match="several rows of one key") as caught:
        rig.writer(keys=("k",)).land(rig.spark.createDataFrame([("a", 1), ("a", 2)], "k STRING, v INT"), 0)
    assert "key k=a has 2 rows" in caught.value.why
    assert rig.sql("SELECT * FROM {t}") == []


def test_a_lock_is_waited_for_and_then_said(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.create()
    monkeypatch.setitem(connection._SETTINGS, "lock_timeout", "50")
    monkeypatch.setattr(writer_of, "ATTEMPTS", 2)
    with closing(psycopg2.connect(
        host=rig.database.host, port=rig.database.port, dbname=rig.database.database, user=rig.database.user,
        passfile=str(rig.pgpass),
    )) as held, held.cursor() as cursor:  # fmt: skip
        cursor.execute(f"LOCK TABLE {rig.place.quoted} IN SHARE MODE")
        with pytest.raises(Transient, match="contention") as caught:
            rig.land(0)
        assert "lock_timeout" in caught.value.why
    assert rig.land(0).counts.landed == ROWS
