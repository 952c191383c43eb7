"""Streams in the states people meet at night, made by hand: everything here is pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.commit_protocol.position import Position, Totals
from lakeward.registry.backpressure import TableBackpressure
from lakeward.registry.drivers import Driver
from lakeward.registry.generations import Generation
from lakeward.registry.incidents import Incident
from lakeward.registry.leases import Lease
from lakeward.registry.observations import Observation
from lakeward.registry.restarts import Restart
from lakeward.registry.streams import Stream
from lakeward.supervision import observe
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.observe import Facts
from lakeward.supervision.presence import Presence
from lakeward.supervision.presence import State as Supervised
from lakeward.supervision.report.block import block
from lakeward.supervision.report.document import document
from lakeward.supervision.report.lag import Lag, Partition
from lakeward.supervision.report.material import Material, View
from lakeward.supervision.report.recent import Recent
from lakeward.supervision.report.sources import Planned, Sources

NOW = datetime(2026, 11, 21, 3, 10, 42, tzinfo=UTC)
HANDLE = {"pid": 4711, "start_time": 1.0, "boot_id": "b", "host": "lake-1"}
SPEC: dict[str, Any] = {
    "id": "flights",
    "owner": "ops",
    "source": {"kafka": {"topics": ["flights"], "max_offsets_per_trigger": 20000}},
    "sink": {"iceberg": {"table": "nyc.flights"}},
    "trigger": {"every": "10s"},
    "lineage": "rows",
}
LEASE = Lease("stream", "flights", "t", "h", NOW, live=True)
PROGRESS: dict[str, Any] = {
    "inputRowsPerSecond": 23.0,
    "processedRowsPerSecond": 510.0,
    "durationMs": {"triggerExecution": 1240, "addBatch": 900, "queryPlanning": 60, "walCommit": 80, "latestOffset": 4},
}


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def offsets(*ends: int) -> str:
    return json.dumps({"flights": {str(part): end for part, end in enumerate(ends)}}, separators=(",", ":"))


@dataclass(frozen=True)
class Scene:
    """One stream at one moment; a test changes what matters."""

    stream: Stream
    driver: Driver | None
    seen: Observation | None
    process: Life = Life.ALIVE
    leased: bool = True
    failure: Restart | None = None
    failures: int = 0
    sources: Sources = field(default_factory=Sources)
    backend: bool = True
    beside: tuple[str, ...] = ()
    missed: str | None = None
    pressures: dict[str, TableBackpressure] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def changed(self, **values: Any) -> Scene:
        return replace(self, **values)

    def view(self) -> View:
        streams = [self.stream, *(replace(self.stream, id=name, blocked=None) for name in self.beside)]
        generation = Generation(
            "flights", self.stream.generation, SPEC, "d", None, {}, {}, "ann", "flights", ago(86_400), None
        )
        known: dict[str, Any] = {each.name: {} for each in fields(Facts)}
        known |= {
            "streams": streams,
            "generations": {item.id: generation for item in streams},
            "drivers": {self.driver.name: self.driver} if self.driver else {},
            "stream_leases": {"flights": Lease("stream", "flights", "t", "h", ago(-10), live=True)}
            if self.leased
            else {},
            "observations": {"flights": self.seen} if self.seen else {},
            "now": NOW,
            "answering_s": 1e6,
            "backpressures": self.pressures,
        }
        if self.failure is not None:
            known["failures"] = {("demo", self.failure.stream): self.failure}
            known["failures_24h"] = {("demo", self.failure.stream): self.failures or 1}
        facts = Facts(**known)
        jobs = [Job("demo", "t", self.process, HANDLE, "lake-1", "/lake/drivers/demo/1")] if self.driver else []
        found = jobs if self.backend else None
        return View(facts, found, observe.verdicts(facts, found), self.present())

    def present(self) -> Presence:
        if self.missed is None:
            return Presence(Supervised.OK)
        return Presence(Supervised.STALE, ago(420), self.missed, "lakeward doctor")

    def material(self) -> Material:
        view = self.view()
        return Material(view, self.stream, self.sources, **self.more)

    def document(self) -> dict[str, Any]:
        return document(self.material())

    def lines(self, trouble: str | None = None) -> list[str]:
        return block(self.document(), trouble)


def lag(*parts: tuple[int | None, int], oldest_s: float | None, arriving: float | None = 23.0, **more: Any) -> Lag:
    partitions = tuple(Partition("source", "flights", number, at, end, 0) for number, (at, end) in enumerate(parts))
    return Lag(partitions, oldest_s, arriving, 7 * 86_400.0, **more)


def position(**more: Any) -> Position:
    base: dict[str, Any] = {
        "seq": 812, "query_id": "q", "batch": 811, "generation": 4, "end": {"source": offsets(12043, 11998)},
        "snapshot": 5512860432156, "snapshot_seq": 901, "totals": Totals(consumed=24041, landed=24000),
        "complete_through": "2026-11-21T03:00:00Z",
    }  # fmt: skip
    return Position(**{**base, **more})


def healthy() -> Scene:
    return Scene(
        stream=Stream(
            id="flights",
            desired="running",
            generation=4,
            pending_generation=None,
            driver="demo",
            state="healthy",
            why="",
            since=ago(5400),
            run_after=None,
            hold_until=None,
            blocked=None,
            removed_at=None,
            updated_at=NOW,
        ),
        driver=Driver(
            name="demo",
            token="t",
            backend="local",
            handle=HANDLE,
            host="lake-1",
            log="/lake/drivers/demo/1",
            state="running",
            launched_at=ago(5460),
            heartbeat=ago(1),
            exit_code=None,
            error=None,
            spark_ui="http://127.0.0.1:4040",
            age_s=1.0,
            launched_s=5460.0,
        ),
        seen=Observation(
            stream="flights",
            at=ago(1),
            run_id="r",
            query_id="q",
            batch_id=811,
            seq=812,
            snapshot_id=5512860432156,
            committed_at=ago(4),
            progress=PROGRESS,
            lag_records=0,
            lag_s=0.0,
            complete_through=None,
            query_state="running",
            error=None,
            age_s=1.0,
            commit_age_s=4.0,
            watch={
                "at": ago(1).isoformat(),
                "phases": {"stage": 0.31, "publish": 0.04},
                "lag_per_second": 0.0,
                "app_id": "local-1763694582201",
            },
        ),
        sources=Sources(
            position(), True, lag((12043, 12043), (11998, 11998), oldest_s=0.0), (), Planned(811, True, {})
        ),
        beside=("delay_alerts", "departures_hourly"),
    )


def dead_driver() -> Scene:
    good = healthy()
    assert good.driver is not None and good.seen is not None
    failure = Restart(
        id=1, driver="demo", stream=None, at=ago(40), failure_class="infra", error="Driver demo was killed by SIGKILL",
        exit_code=-9, attempt=2, next_attempt_at=ago(-12), age_s=40.0, due=False,
    )  # fmt: skip
    ends = {"source": offsets(13000, 13012)}
    return good.changed(
        stream=replace(good.stream, state="restarting", since=ago(40)),
        driver=replace(good.driver, state="exited", exit_code=-9, heartbeat=ago(42), age_s=42.0),
        seen=replace(good.seen, commit_age_s=52.0, committed_at=ago(52), age_s=42.0, at=ago(42)),
        process=Life.GONE, leased=False, failure=failure, failures=2,
        sources=Sources(
            position(), True, lag((12043, 13060), (11998, 13081), oldest_s=51.0), (), Planned(812, False, ends)
        ),
        more={
            "incident": Incident(12, "stream", "flights", ago(40), "t", {}, ago(40), None, None),
            "recent": [
                Recent(ago(5470), "deploy", "deploy by ann: generation 4 accepted"),
                Recent(ago(3000), "maintenance", "compact of nyc.flights done in 41 s"),
                Recent(ago(40), "driver", "driver demo: Driver demo was killed by SIGKILL; attempt 2 in 52 s", 2),
            ],
            "tail": ["2026-11-21T03:09:50.114Z info    batch landed  stream=flights batch=811 seq=812 consumed=240"],
        },
    )  # fmt: skip


def poison() -> Scene:
    good = healthy()
    assert good.driver is not None and good.seen is not None
    what = "org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'n/a' cannot be cast to BIGINT"
    ends = {"source": {"start": offsets(12043, 11998), "end": offsets(13000, 13012)}}
    failure = Restart(
        id=3, driver="demo", stream="flights", at=ago(130), failure_class="poison", error=what, exit_code=None,
        attempt=3, next_attempt_at=None, age_s=130.0, due=False,
    )  # fmt: skip
    blocked = {
        "reason": "poison", "what": f"Batch 812 failed three times the same way: {what}",
        "why": "the same records fail again whenever they are read", "batch": 812, "offsets": ends,
        "next": "correct the transform in conf/streams/flights.yaml, then: lakeward deploy; lakeward streams upgrade "
        "flights --wait; or skip its records: lakeward streams skip-batch flights --batch 812 "
        '--comment "batch 812 fails"   shows them and asks',
    }  # fmt: skip
    return good.changed(
        stream=replace(good.stream, state="blocked", since=ago(130), blocked=blocked),
        seen=replace(
            good.seen, query_state="failed", commit_age_s=260.0, committed_at=ago(260),
            error={"class": "poison", "error": what, "batch_id": 812, "offsets": ends},
        ),
        failure=failure, failures=3,
        sources=Sources(
            position(), True, lag((12043, 13060), (11998, 13081), oldest_s=262.0), (),
            Planned(812, False, {"source": offsets(13000, 13012)}),
        ),
        more={
            "stable": Generation("flights", 3, SPEC, "c", None, {}, {}, "ann", "flights", ago(9e5), ago(8e5)),
            "differs": ["transform.sql", "limits.freshness"],
            "recent": [
                Recent(ago(900), "deploy", "deploy by ann: generation 4 accepted"),
                Recent(ago(130), "stream", f"failed (poison), attempt 3: {what}", 3, ago(220)),
            ],
            "tail": [
                "2026-11-21T03:08:32.101Z error   stream failed, will restart  stream=flights batch=812 attempt=3",
                "2026-11-21T03:08:32.190Z error   stream blocked  stream=flights reason=poison batch=812",
            ],
        },
    )  # fmt: skip


def lost_checkpoint() -> Scene:
    good = healthy()
    assert good.seen is not None
    blocked = {
        "reason": "checkpoint-missing",
        "what": "The checkpoint of stream flights is gone",
        "why": "/lake/checkpoints/flights is empty, and nyc.flights holds seq 812 of it",
        "next": "lakeward streams recover flights",
    }
    return good.changed(
        stream=replace(good.stream, state="blocked", since=ago(600), blocked=blocked),
        seen=replace(good.seen, query_state="failed", commit_age_s=660.0, committed_at=ago(660), error=None),
        sources=Sources(position(), True, lag((12043, 20100), (11998, 19800), oldest_s=655.0), (), None),
        more={"recent": [Recent(ago(600), "stream", "blocked: The checkpoint of stream flights is gone")]},
    )


def broker_away() -> Scene:
    good = healthy()
    assert good.seen is not None
    error = "Kafka does not answer\n  why:  brokers 127.0.0.1:9092: Connection refused"
    failure = Restart(
        id=5, driver="demo", stream="flights", at=ago(20), failure_class="dependency", error=error, exit_code=None,
        attempt=4, next_attempt_at=ago(-75), age_s=20.0, due=False,
    )  # fmt: skip
    watch = dict(good.seen.watch or {}) | {
        "at": ago(185).isoformat(), "oldest": ago(190).isoformat(), "retention_s": 604_800.0,
        "arriving_per_second": 23.0,
        "partitions": [
            {"source": "source", "topic": "flights", "partition": 0, "position": 12043, "end": 12060},
            {"source": "source", "topic": "flights", "partition": 1, "position": 11998, "end": 12003},
        ],
    }  # fmt: skip
    return good.changed(
        stream=replace(good.stream, state="restarting", since=ago(185), run_after=ago(-75)),
        seen=replace(
            good.seen, query_state="failed", commit_age_s=188.0, committed_at=ago(188), watch=watch,
            error={"class": "dependency", "error": error, "batch_id": None, "offsets": None},
        ),
        failure=failure, failures=4,
        sources=Sources(
            position(), True, None, (), Planned(811, True, {}),
            ("Kafka does not answer: brokers 127.0.0.1:9092: Connection refused",),
        ),
        more={"recent": [Recent(ago(20), "stream", "failed (dependency), attempt 4 in 95 s", 4, ago(185))]},
    )  # fmt: skip


def lagging() -> Scene:
    good = healthy()
    assert good.seen is not None
    progress = PROGRESS | {
        "processedRowsPerSecond": 900.0,
        "durationMs": {"triggerExecution": 21_400, "addBatch": 20_100},
    }
    watch = dict(good.seen.watch or {}) | {"lag_per_second": 412.5}
    return good.changed(
        stream=replace(good.stream, state="lagging", since=ago(1500)),
        seen=replace(good.seen, progress=progress, lag_records=618_000, lag_s=1480.0, watch=watch),
        sources=Sources(
            position(), True, lag((12043, 612_043), (11998, 29_998), oldest_s=1490.0, arriving=1312.0), (),
            Planned(812, False, {"source": offsets(32043, 11998)}),
        ),
        more={"recent": [Recent(ago(1600), "people", "restart by ben: more memory")]},
    )  # fmt: skip


SCENES = {
    "healthy": healthy, "dead_driver": dead_driver, "poison": poison, "lost_checkpoint": lost_checkpoint,
    "broker_away": broker_away, "lagging": lagging,
}  # fmt: skip


@pytest.fixture(params=sorted(SCENES))
def scene(request: pytest.FixtureRequest) -> tuple[str, Scene]:
    """Each scene with its name."""
    return request.param, SCENES[request.param]()


@pytest.fixture
def scenes() -> dict[str, Scene]:
    """All scenes."""
    return {name: make() for name, make in SCENES.items()}


@pytest.fixture
def blocks() -> Path:
    """The folder of the texts as they should be."""
    return Path(__file__).parent / "blocks"
