"""`demo --check`: one finite run of the demo in which the driver is killed, and every claim is proved.

Steps: produce, land, kill the driver, continue, check (pass), maintain, plant invalid rows, check (hold), prove. The
seed decides the records, the time of the kill and the killed process.
"""

from __future__ import annotations

import platform
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import psutil

from lakeward.demo import broker, flights
from lakeward.demo.flights import Record
from lakeward.demo.lake import DemoLake
from lakeward.demo.memory import Peak
from lakeward.demo.producer import Sender
from lakeward.demo.producing import Producing
from lakeward.demo.prove import Proof, Prover, Topic, complete, offsets_of, planned, ranges
from lakeward.demo.report import QualityReport, Report, StreamReport, TableReport
from lakeward.demo.stand import DemoStack
from lakeward.platform.errors import LakewardError, TimedOut
from lakeward.registry import batches, drivers, maintenance, restarts, verifications
from lakeward.registry.maintenance import LedgerRow
from lakeward.registry.verifications import CheckResult, Verification
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.loader import load_project
from lakeward.supervision import observe
from lakeward.supervision.reconcile import backend_of

FLIGHTS, HOURLY, ALERTS = "flights", "departures_hourly", "delay_alerts"
TABLE = "nyc.flights"
TOPIC = "flights"
KILL_BETWEEN = (0.2, 0.7)
HELD_BACK = 0.15
"""Share of the records that is produced after the kill, so that the driver always dies with work left."""
PLANTED = 40
TRICKLE, TURN_S, TURNS = 150, 6.0, 4
"""Turns are longer than a trigger, so that each is a separate batch; four turns create small files."""
_POLL_S = 1.0
_GREEN = ("pass", "warn")


@dataclass(frozen=True)
class CheckOptions:
    """Parameters of one run of `demo --check`.

    Attributes:
        patience_s: timeout of any single wait. A manual Dag run waits behind scheduled ones, and on a shared machine
            each takes a minute.
    """

    seed: int = 1
    records: int = 50_000
    per_second: float = 800.0
    patience_s: float = 900.0


@dataclass
class Check:
    """One run of `demo --check`."""

    stand: DemoStack
    options: CheckOptions
    say: Callable[[str], None]
    report: Report = field(init=False)
    _killed: threading.Event = field(default_factory=threading.Event, init=False)
    _begun: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.report = Report(self.options.seed, self.options.records)
        memory = psutil.virtual_memory().total
        self.report.machine = {"cpus": psutil.cpu_count(), "memory_bytes": memory, "system": platform.platform()}

    def run(self) -> Report:
        """Run all steps. Failures are problems of the report; only a missing tool or an invalid file raises."""
        self._begun = time.monotonic()
        dice = random.Random(f"{self.options.seed}/check")  # noqa: S311  # reproducible by intent
        seconds = self.stand.up()
        self.report.timings_s["stack_up"] = round(seconds, 1)
        self._log(f"the stack is up after {seconds:.0f} s")
        with Peak(self.stand.pss_bytes) as peak:
            try:
                self._story(dice)
            except LakewardError as error:
                self.report.problems.append(str(error))
            finally:
                self.report.peak_pss_bytes = peak.bytes
        self.report.timings_s["total"] = round(time.monotonic() - self._begun, 1)
        return self.report

    def _story(self, dice: random.Random) -> None:
        sender = Sender(self.stand.bootstrap, TOPIC)
        lake = DemoLake(self.stand.runtime)
        year = flights.load()
        records = flights.replay(year, seed=self.options.seed, laps=None)
        with Producing(sender, self._paced(records), self.options.per_second, self._killed.set) as producing:
            self._first_row(lake, producing)
            self._kill(lake, dice, producing)
        self._log(f"{sender.total:,} records are in the broker: {_kinds(sender)}")
        self._all_landed(lake)
        self._settled(lake)
        self._quality_green()
        self._maintenance(sender, records)
        self._all_landed(lake)
        self._quality_green()
        self._quality_held(lake, sender, flights.planted(year, PLANTED, seed=self.options.seed, near=_EARLY))
        self._settled(lake)
        self._prove_all(lake)
        self.report.dag_runs = self.stand.airflow.run_counts()

    def _paced(self, records: Iterator[Record]) -> Iterator[Record]:
        """The requested number of records; the last part waits until the driver was killed."""
        early = round(self.options.records * (1 - HELD_BACK))
        for number, record in enumerate(islice(records, self.options.records)):
            if number == early:
                self._killed.wait(self.options.patience_s)
            yield record

    def _first_row(self, lake: DemoLake, producing: Producing) -> None:
        self._until("the first row is landed", lambda: _consumed(lake) > 0, producing)
        took = time.monotonic() - self._begun
        self.report.timings_s["first_landed_row"] = round(took, 1)
        self._log(f"the first row is landed after {took:.0f} s")

    def _kill(self, lake: DemoLake, dice: random.Random, producing: Producing) -> None:
        share = dice.uniform(*KILL_BETWEEN)
        goal = round(share * self.options.records)
        self._until(f"{goal:,} records are landed", lambda: _consumed(lake) >= goal, producing)
        time.sleep(dice.uniform(0.0, 6.0))
        with self.stand.registry() as connection:
            token = drivers.all_drivers(connection)[self._driver].token
        self._log(f"{self.stand.kill_driver(dice)}, with {_consumed(lake):,} records landed")
        self._killed.set()
        killed = time.monotonic()
        self._until("the driver is restarted", lambda: self._is_back(token), producing)
        self._log(f"the driver was restarted automatically after {time.monotonic() - killed:.0f} s")

    @property
    def _driver(self) -> str:
        return self.stand.specs[FLIGHTS].driver

    def _is_back(self, token: str) -> bool:
        with self.stand.registry() as connection:
            driver = drivers.find(connection, self._driver)
        return driver is not None and driver.token != token and driver.heartbeat is not None

    def _all_landed(self, lake: DemoLake) -> None:
        begun = time.monotonic()
        self._until("every stream has landed all", lambda: not self._behind(lake))
        self._log(f"every stream has read the whole topic, {time.monotonic() - begun:.0f} s later")

    def _behind(self, lake: DemoLake) -> dict[str, int]:
        """Stream -> number of unread records; only streams that are behind."""
        high = broker.topic_range(self.stand.bootstrap, TOPIC).high
        behind: dict[str, int] = {}
        for name, spec in self.stand.specs.items():
            if spec.sink.table is not None:
                position = lake.position(str(spec.sink.table), name)
                ends: Mapping[str, str] = position.end if position else {}
            else:
                with self.stand.registry() as connection:
                    newest = next(iter(batches.newest(connection, name, limit=1)), None)
                ends = (newest.end_offsets if newest else None) or {}
            at = offsets_of(ends, TOPIC)
            unread = sum(max(0, end - at.get(part, 0)) for part, end in high.items())
            if unread:
                behind[name] = unread
        return behind

    def _settled(self, lake: DemoLake) -> None:
        """Wait until every stream is healthy and the windowed one has written the windows of its last batch."""
        self._until("every stream is healthy", lambda: all(state == "healthy" for state in self._states().values()))

        def written() -> bool:
            proof = self._windows(lake)
            return not proof.mismatched_windows

        deadline = time.monotonic() + 60
        while not written() and time.monotonic() < deadline:
            time.sleep(2 * _POLL_S)

    def _states(self) -> dict[str, str]:
        with self.stand.registry() as connection:
            facts = observe.read(connection)
        verdicts = observe.verdicts(facts, observe.observed_jobs(backend_of(self.stand.runtime), facts))
        return {name: verdict.state.value for name, verdict in verdicts.items()}

    def _quality_green(self) -> None:
        """Run the checks on all landed rows: `verified` must be the checked snapshot."""
        run = self._check_run()
        self.report.claim(run["verdict"] in _GREEN, f"the verdict on valid rows is {run['verdict']}")
        self.report.claim(
            run["verified_snapshot"] is not None and run["verified_snapshot"] == run["to_snapshot"],
            f"verified is snapshot {run['verified_snapshot']}, not the checked {run['to_snapshot']}",
        )
        self._log(f"checks: {run['verdict']}, verified up to snapshot {run['verified_snapshot']}")

    def _quality_held(self, lake: DemoLake, sender: Sender, bad: list[Record]) -> None:
        """Produce rows that decode and are invalid: they land, and the check does not move `verified`."""
        sender.send(bad, per_second=1000.0)
        self._log(f"{len(bad)} rows without a carrier are planted")
        self._until("the planted rows are landed", lambda: not self._behind(lake))
        run = self._check_run()
        with self.stand.registry() as connection:
            earlier = verifications.newest(connection, TABLE, limit=1000)
        verified = next((row["verified_snapshot"] for row in earlier if row["verdict"] in _GREEN), None)
        self.report.claim(run["verdict"] == "hold", f"the verdict on planted rows is {run['verdict']}, not hold")
        self.report.claim(
            run["verified_snapshot"] == verified, f"verified moved from {verified} to {run['verified_snapshot']}"
        )
        self._log(f"checks: {run['verdict']}, verified stays at snapshot {run['verified_snapshot']}")

    def _check_run(self) -> Verification:
        """Trigger `quality_check` in Airflow and return the newest recorded run of the table.

        Raises:
            LakewardError: the run recorded no verdict.
        """
        self._run_dag("quality_check", {"table": TABLE}, "demo: check what landed")
        with self.stand.registry() as connection:
            newest = next(iter(verifications.newest(connection, TABLE, limit=1)), None)
            checks = verifications.checks_of(connection, newest["run"]) if newest else []
        if newest is None:
            raise LakewardError(
                f"No check run of {TABLE} was recorded", next=f"lakeward quality run {TABLE}", code="LW-7407"
            )
        failed = [self._named(check) for check in checks if check["state"] in ("fail", "error")]
        report = QualityReport(TABLE, newest["run"], newest["verdict"], failed, newest["verified_snapshot"])
        self.report.quality.append(report)
        return newest

    def _named(self, check: CheckResult) -> str:
        """The expectation of a check with its column."""
        suite = load_project(self.stand.project).suites.get(TABLE)
        columns = {item.id: item.kwargs.get("column") for item in suite.expectations} if suite else {}
        column = columns.get(check["check"])
        return f"{check['expectation']}({column})" if column else str(check["expectation"])

    def _run_dag(self, dag: str, conf: dict[str, object], note: str) -> str:
        airflow = self.stand.airflow
        return airflow.wait(dag, airflow.trigger(dag, conf, note), self.options.patience_s)

    def _maintenance(self, sender: Sender, more: Iterator[Record]) -> None:
        """Trickle flights, so that small files accumulate while `tables_maintain` runs in parallel with the stream.

        It ends when a compaction and an expiry are done and verified.
        """
        deadline = time.monotonic() + self.options.patience_s
        turns = 0
        while missing := sorted({"compact", "expire"} - self._verified_actions().keys()):
            if time.monotonic() > deadline:
                self.report.problems.append(f"no verified {' and no verified '.join(missing)} of {TABLE}")
                break
            sender.send(islice(more, TRICKLE), per_second=1000.0)
            turns += 1
            if turns % TURNS == 0:
                self._run_dag("tables_maintain", {"table": TABLE}, "demo: maintain now")
            else:
                time.sleep(TURN_S)
        done = self._verified_actions()
        self.report.tables.append(TableReport.of(TABLE, done.get("compact", {}), done.get("expire", {})))
        last = self.report.tables[-1]
        self.report.claim(last.rows_before == last.rows_after, f"compaction changed rows: {last}")
        self.report.claim(
            last.files_before is not None and last.files_after is not None and last.files_after < last.files_before,
            f"compaction did not reduce the number of files: {last}",
        )
        self._log(
            f"compacted {last.files_before} files to {last.files_after}, "
            f"expired {last.snapshots_before} snapshots to {last.snapshots_after}, rows unchanged"
        )

    def _verified_actions(self) -> dict[str, LedgerRow]:
        """Action -> its first verified entry in the ledger."""
        with self.stand.registry() as connection:
            entries = maintenance.newest_actions(connection, TABLE)
        return {entry["action"]: entry for entry in entries if entry["result"] == "done" and entry["verified"]}

    def _prove_all(self, lake: DemoLake) -> None:
        specs, states = self.stand.specs, self._states()
        prover = self._prover(lake)
        with self.stand.registry() as connection:
            counts = restarts.count_24h(connection)
        for name, proof in {
            FLIGHTS: prover.rows(specs[FLIGHTS], self._recorded(FLIGHTS)),
            HOURLY: self._windows(lake, prover),
            ALERTS: prover.alerts(specs[ALERTS]),
        }.items():
            spec = specs[name]
            self.report.problems += proof.wrong
            self.report.claim(states.get(name) == "healthy", f"{name} is {states.get(name)}")
            restarted = counts.get((spec.driver, name), 0) + counts.get((spec.driver, None), 0)
            self.report.claim(restarted > 0, f"{name} was never restarted: the kill was not detected")
            self.report.streams.append(_stream(spec, states.get(name, "unknown"), proof, restarted))
            self._log(_sentence(self.report.streams[-1]))

    def _prover(self, lake: DemoLake) -> Prover:
        return Prover(self.stand.bootstrap, lake, Topic.read(self.stand.bootstrap, TOPIC))

    def _windows(self, lake: DemoLake, prover: Prover | None = None) -> Proof:
        spec = self.stand.specs[HOURLY]
        low = broker.topic_range(self.stand.bootstrap, TOPIC).low
        log = planned(self.stand.checkpoint(HOURLY), TOPIC)
        return (prover or self._prover(lake)).windows(spec, complete(self._recorded(HOURLY), log, low))

    def _recorded(self, stream: str) -> list[Any]:
        with self.stand.registry() as connection:
            return ranges(batches.newest(connection, stream, limit=1_000_000), TOPIC)

    def _until(self, what: str, condition: Callable[[], bool], producing: Producing | None = None) -> None:
        """Wait until a condition is true.

        Raises:
            TimedOut: it did not become true in time; `why` has the states of the streams.
        """
        deadline = time.monotonic() + self.options.patience_s
        while not condition():
            if producing is not None:
                producing.raise_if_failed()
            if time.monotonic() > deadline:
                states = ", ".join(f"{name} is {state}" for name, state in self._states().items())
                raise TimedOut(
                    f"Timed out after {self.options.patience_s:.0f} s; waited until {what}",
                    why=states or "no stream is deployed",
                    next=f"lakeward streams list --home {self.stand.home.root}",
                    code="LW-7408",
                )
            time.sleep(_POLL_S)

    def _log(self, text: str) -> None:
        line = f"{time.monotonic() - self._begun:6.0f} s  {text}"
        self.report.story.append(line.strip())
        self.say(line)


_EARLY = datetime(2013, 1, 20, tzinfo=UTC)
"""Time of the planted rows, in a month that the stream has written."""


def _consumed(lake: DemoLake) -> int:
    position = lake.position(TABLE, FLIGHTS)
    return position.totals.consumed if position else 0


def _kinds(sender: Sender) -> str:
    broken = sum(count for kind, count in sender.sent.items() if kind in flights.BREAKS)
    return f"{sender.sent['flight']:,} in order, {sender.sent['late']:,} late, {broken:,} broken"


def _stream(spec: StreamSpec, state: str, proof: Proof, restarted: int) -> StreamReport:
    return StreamReport(
        id=str(spec.id),
        sink=spec.sink.label,
        lineage=spec.lineage or "none",
        state=state,
        produced=proof.produced,
        landed=proof.landed,
        quarantined=proof.quarantined,
        late_dropped=proof.late_dropped,
        missing=proof.missing,
        duplicates=proof.duplicates,
        mismatched_windows=proof.mismatched_windows,
        restarts=restarted,
        p99_freshness_s=None if proof.p99_freshness_s is None else round(proof.p99_freshness_s, 2),
    )


def _sentence(report: StreamReport) -> str:
    parts = [f"{report.id}: {report.produced:,} produced, {report.landed:,} landed, {report.quarantined:,} quarantined"]
    if report.missing is not None:
        parts.append(f"missing {report.missing}, duplicates {report.duplicates}")
    if report.mismatched_windows is not None:
        parts.append(f"{report.late_dropped} late, mismatched windows {report.mismatched_windows}")
    return ", ".join(parts)
