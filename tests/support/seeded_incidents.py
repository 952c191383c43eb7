"""Twelve incidents in a registry, made by what records them in production, to be read on the page.

Each function changes a healthy site: the stream `flights` has landed in a real table, and records wait in a real topic.
Where a driver is needed that lives, it is `small_driver.py` under the real local backend.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer
from sqlalchemy import func, update

from lakeward.connectors import schema_evolution
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.source.position import Offset
from lakeward.connectors.kafka import continuity
from lakeward.driver.failing import Failure, Failures
from lakeward.engine import schema as table_schema
from lakeward.engine.assignment import Assignment
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import classify
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import Project
from lakeward.quality.ranges.range import decide
from lakeward.quality.ranges.snapshot_chain import History, Mark, Snapshot
from lakeward.quality.results import incident as quality_incident
from lakeward.quality.results.records import Result
from lakeward.quality.verdicts.verdict import Check, State, Verdict
from lakeward.registry import (
    batches,
    changes,
    drivers,
    generations,
    leases,
    maintenance,
    observations,
    streams,
    verifications,
)
from lakeward.registry import schema as tables
from lakeward.registry.engine import now as registry_now
from lakeward.supervision.backends.base import Life
from lakeward.supervision.backends.local import LocalBackend
from lakeward.supervision.reconcile import reconcile_once
from lakeward.tables import pinned
from lakeward.tables import run as table_maintenance
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.needs import history_of, needs_of, read_registry
from lakeward.tables.observation import load_facts
from lakeward.tables.plan import plan

STREAM, TABLE, DRIVER = "flights", "nyc.flights", "main"
OFFSETS = {"flights": {"start": '{"T": {"0": 4, "1": 3}}', "end": '{"T": {"0": 9, "1": 8}}'}}
AGO = timedelta(minutes=25)


@dataclass(frozen=True)
class Scene:
    """A site, its table, and what keeps a driver alive."""

    site: Any
    table: Any
    backend: LocalBackend
    project: Project

    def connect(self) -> Any:
        return self.site.registry()

    def fails(self, error: BaseException, times: int = 1, batch: int | None = 3) -> None:
        """The stream fails as in a driver, and the driver's own recorder writes it."""
        found = Failures(self.driver, self.connect, chance=lambda: 0.5, log=lambda stream: ["ERROR " + str(error)[:90]])
        with self.connect() as connection:
            now = registry_now(connection)
        wanted = Assignment(STREAM, 1, {}, f"{self.site.home}/checkpoints/{STREAM}/1")
        for _ in range(times):
            found.handle(wanted, Failure(error, batch_id=batch, offsets=OFFSETS if batch is not None else None), now)

    @property
    def driver(self) -> str:
        with self.connect() as connection:
            return streams.get(connection, STREAM).driver

    def blocked_by(self, check: Callable[[], object]) -> None:
        """The stream fails by what a guard of production raises."""
        try:
            check()
        except LakewardError as error:
            self.fails(error, batch=None)
            return
        raise AssertionError("the guard let it pass")

    def launched(self, token: str = "t1", host: str = "lake-1", pid: int = 999_999) -> None:
        """A launch of the driver, that has run for hours and landed."""
        with self.connect() as connection:
            drivers.record_intent(connection, self.driver, token=token, previous=None, backend="local")
            handle: Any = {"pid": pid, "start_time": 1.0, "boot_id": "b", "host": host}
            drivers.started(connection, self.driver, token, handle=handle, host=host, log=str(self.site.home / "log"))
            drivers.claim(connection, self.driver, token, str(pid), host)
            drivers.beat(connection, self.driver, token, state="running")

    def runs(self, mode: str = "quiet") -> None:
        """A pass of reconcile launches the driver: by default it lives, and this module says what it lands."""
        self.site.runtime.drivers.mkdir(parents=True, exist_ok=True)
        (self.site.runtime.drivers / "mode").write_text(mode)
        self.passes()

    def lands(self) -> None:
        """The stream is healthy."""
        self.runs()
        self.landed(timedelta(seconds=4), lag_records=0, lag_s=0.0)
        self.passes()

    def passes(self) -> None:
        """A pass of `streams_reconcile`: it judges, and opens incidents. The driver is told nothing it must not do."""
        reconcile_once(self.connect, self.site.runtime, self.backend, holder="a test", startup_grace_s=0.0)

    def earlier(self, by: timedelta = AGO) -> None:
        """Time passes: what was recorded so far was recorded that much earlier."""
        moved = {
            tables.streams: ("since", "updated_at"), tables.drivers: ("launched_at",), tables.restarts: ("at",),
            tables.incidents: ("opened_at",), tables.generations: ("created_at",),
        }  # fmt: skip
        with self.connect() as connection:
            for table, columns in moved.items():
                connection.execute(update(table).values({name: table.c[name] - by for name in columns}))

    def landed(self, ago: timedelta, **more: Any) -> None:
        """What the driver reported last."""
        with self.connect() as connection:
            figures = {"lag_records": 10, "lag_s": ago.total_seconds(), **more}
            observations.record(
                connection, STREAM, query_state="running", batch_id=2, seq=3, committed_at=func.now() - ago, **figures
            )


def prepared(site: Any, landed: Callable[..., Any], backend: LocalBackend, project: Project) -> Scene:
    """A healthy site: four and three records have landed, five more wait in each partition."""
    producer = Producer({"bootstrap.servers": site.runtime.kafka["lakeward_kafka"]})
    for number in range(9):
        for partition in (0, 1):
            producer.produce(site.topic, json.dumps({"n": number}).encode(), partition=partition)
    producer.flush(30)
    table = landed({0: 4, 1: 3}, rows=[(0, 0), (1, 0)])
    scene = Scene(site, table, backend, project)
    with site.registry() as connection:
        streams.set_desired(connection, [STREAM], "running")
        head = table.current_snapshot().snapshot_id
        batches.record(
            connection, stream=STREAM, query_id="q", batch_id=2, seq=3, generation=1, snapshot_id=head, consumed=7,
            landed=2, end_offsets={"flights": json.dumps({site.topic: {"0": 4, "1": 3}})},
        )  # fmt: skip
        maintenance.register(
            connection, TABLE, format="iceberg", location=table.location(), table_class="append-stream"
        )
    return scene


def dead_driver(scene: Scene) -> None:
    """The driver was killed; it waits for its next attempt."""
    scene.runs("killed")
    deadline = time.monotonic() + 30
    while any(job.life is Life.ALIVE for job in scene.backend.find()):
        assert time.monotonic() < deadline, "the driver does not die"
        time.sleep(0.05)
    scene.passes()


def hung_batch(scene: Scene) -> None:
    """The driver lives and answers, and a batch does not end."""
    scene.runs()
    scene.landed(AGO, watch={"batch_started_s": 1500})
    scene.earlier()


def poison_record(scene: Scene) -> None:
    """One record fails its batch three times in the same way."""
    scene.launched()
    scene.fails(
        ValueError("[CAST_INVALID_INPUT] The value 'n/a' of column dep_delay cannot be cast to DOUBLE"), times=3
    )


def lost_checkpoint(scene: Scene) -> None:
    """The folder of the checkpoint is empty, and the table has a position."""
    scene.launched()
    folder = scene.site.runtime.checkpoint_of(f"{scene.site.home}/checkpoints/{STREAM}/1")
    held = Position(seq=3, query_id="q", batch=2, end={}, snapshot=1, snapshot_seq=1)
    scene.blocked_by(classify(STREAM, Checkpoint(str(folder)), held, exact=True).check)


def zombie(scene: Scene) -> None:
    """The driver was started by a host that is away, and may come back."""
    scene.launched(host="lake-old")
    scene.landed(timedelta(minutes=30))
    scene.earlier()
    with scene.connect() as connection:
        connection.execute(update(tables.drivers).values(heartbeat=func.now() - AGO))
        leases.forget(connection, "driver", scene.driver)


def retention_passed(scene: Scene) -> None:
    """Kafka deleted records that had not landed."""
    scene.launched()
    at = json.dumps({scene.site.topic: {"0": 4, "1": 3}})
    begins = {scene.site.topic: {0: 8, 1: 7}}
    ends = {scene.site.topic: {0: 9, 1: 9}}
    scene.blocked_by(lambda: continuity.check(STREAM, at, begins, ends))


def schema_drift(scene: Scene) -> None:
    """The transform gives another type than the table has."""
    scene.launched()
    columns = {"dep_delay": "string", "carrier": "string"}, {"dep_delay": "double", "carrier": "string"}
    given, has = ({"type": "struct", "fields": [_field(*item) for item in each.items()]} for each in columns)
    compared = schema_evolution.compare(given, has, lambda one, other: False)
    scene.blocked_by(lambda: table_schema.check(STREAM, 1, TABLE, "lake", compared, added={}, additive=False))


def _field(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def catalog_down(scene: Scene) -> None:
    """The catalog does not answer: a real probe of a pass finds out."""
    scene.runs()
    scene.landed(timedelta(minutes=2))
    lake = scene.site.runtime.lake
    scene.fails(
        DependencyDown("The catalog of the lake does not answer", why=f"{lake.host}:1: Connection refused"), batch=None
    )
    away = scene.site.runtime.model_copy(update={"lake": lake.model_copy(update={"port": 1})})
    object.__setattr__(scene.site, "runtime", away)
    scene.passes()
    scene.earlier(timedelta(minutes=3))


def disk_full(scene: Scene) -> None:
    """The disk of checkpoints is full."""
    scene.runs()
    scene.landed(timedelta(minutes=2))
    scene.fails(OSError("java.io.IOException: No space left on device: /lake/checkpoints/flights/1/offsets/.3.tmp"), 2)


def compaction_loses_races(scene: Scene) -> None:
    """Compactions end in commit conflicts."""
    scene.lands()
    why = (
        "org.apache.iceberg.exceptions.ValidationException: Found new conflicting files that can contain records "
        "matching partition time_hour_month=2013-01"
    )
    for _ in range(3):
        with scene.connect() as connection:
            number = maintenance.begin_action(
                connection, plan="p", table=TABLE, action="compact", session_id=None,
                before={"files": 216, "small_files": 212, "partitions": ["time_hour_month=2013-01"]},
            )  # fmt: skip
            maintenance.finish_action(
                connection, number, result="failed", verified=None, why=why, after=None, duration_s=41.0
            )
    table_maintenance.observe(scene.site.runtime, scene.project, [TABLE])


def bad_data(scene: Scene) -> None:
    """A critical check holds the table."""
    scene.lands()
    with scene.connect() as connection:
        at = registry_now(connection)
        kept = {
            number: Snapshot(number, number - 1 or None, number, at - timedelta(minutes=60 - number * 10), "append", 10,
                             number * 10, 0, traced=False)
            for number in range(1, 5)
        }  # fmt: skip
        found = decide(History(TABLE, 4, None, kept), [Mark(1, 1)])
        check = Check(
            "c1", "expect_column_values_to_be_between", "critical", State.FAIL, {"column": "dep_delay"},
            why="minutes, not seconds", rows=40, unexpected_count=12,
            sample=({"dep_delay": 90_000.0, "_kafka_partition": 0, "_kafka_offset": 2},),
        )  # fmt: skip
        landed: Any = {
            "stream": STREAM,
            "from_seq": 2,
            "to_seq": 3,
            "batches": 2,
            "start": {"T": {"0": 1}},
            "end": None,
        }
        result = Result(
            uuid4().hex[:12],
            at,
            TABLE,
            "d",
            "increment",
            found,
            Verdict.HOLD,
            (check,),
            (landed,),
            3,
            (landed,),
            verified=1,
        )
        verifications.record(connection, result.row(), result.check_rows())
        changes.record(connection, "stream", STREAM, "upgrade", author="ada", comment="delays in seconds")
        quality_incident.after_run(connection, result)


def slow_reader(scene: Scene) -> None:
    """A stream that reads the table has landed nothing for weeks: expiry waits for it."""
    scene.lands()
    for _ in range(12):
        scene.table.append(scene.table.scan().to_arrow().slice(0, 1))
    old = min(scene.table.refresh().snapshots(), key=lambda each: each.timestamp_ms)
    reader = "flight_totals"
    with scene.connect() as connection:
        streams.accept(connection, reader, generation=1, driver="main", desired="stopped")
        spec = {
            "id": reader, "owner": "reports", "sources": {"landed": {"iceberg": {"table": TABLE}}},
            "sink": {"iceberg": {"table": "nyc.flight_totals", "mode": "upsert", "keys": ["carrier"]}},
        }  # fmt: skip
        generations.add(
            connection, stream=reader, generation=1, spec=spec, digest="d", sql=None, code={}, versions={},
            author="bob", checkpoint="/checkpoints/flight_totals/1",
        )  # fmt: skip
        batches.record(
            connection, stream=reader, query_id="r", batch_id=0, seq=1, generation=1,
            end_offsets={"landed": Offset(old.snapshot_id, 1).text},
        )  # fmt: skip
    _observed(scene, timedelta(days=30))


def _observed(scene: Scene, later: timedelta) -> None:
    """An observation of the table, that much later: a real table's snapshots are young in a test."""
    site = MaintenanceContext.of(scene.site.runtime, scene.project)
    at = datetime.now(UTC) + later
    with scene.connect() as connection:
        around = read_registry(connection)
        seen = load_facts(site, TABLE, around)
        needs, _ = needs_of(connection, seen.facts, around, at, has_suite=False)
        made = plan(seen.facts, seen.policy, needs, history_of(connection, TABLE), at)
        maintenance.record_facts(connection, TABLE, seen.facts.snapshot_id, seen.facts.document(at))
        held = pinned.documents(seen.facts, seen.policy.expire, needs, at)
        maintenance.record_pins(connection, TABLE, pinned.stored(held))
        maintenance.record_plan(connection, uuid4().hex, TABLE, made.stored())


INCIDENTS: dict[str, Callable[[Scene], None]] = {
    "dead-driver": dead_driver, "hung-batch": hung_batch, "poison-record": poison_record,
    "lost-checkpoint": lost_checkpoint, "zombie": zombie, "retention-passed": retention_passed,
    "schema-drift": schema_drift, "catalog-down": catalog_down, "disk-full": disk_full,
    "compaction-loses-races": compaction_loses_races, "bad-data": bad_data, "slow-reader": slow_reader,
}  # fmt: skip
