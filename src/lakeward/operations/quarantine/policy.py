"""Quarantine policy `on_fail: quarantine`: after a run holds a table, quarantine its failing rows, check the rest.

The steps are decide, move and check again. After a kill the next run continues. Rows land meanwhile, so the second
check ends at the snapshot that the rows were removed from. If failing rows landed in between, the steps
are repeated a few times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakeward.operations.quarantine.run import Connect, QuarantineBy, failing_rows, move_failing_rows, sentence
from lakeward.operations.quarantine.streams import landing
from lakeward.platform.errors import LakewardError
from lakeward.quality.ranges import metadata
from lakeward.quality.results import incident
from lakeward.quality.results.records import RunDocument, recorded
from lakeward.quality.runs.ask import check
from lakeward.quality.verdicts import quarantine_policy
from lakeward.quality.verdicts.quarantine_policy import Decision
from lakeward.quality.verdicts.verdict import Verdict
from lakeward.quality.verdicts.waivers import ids
from lakeward.registry import events, verifications
from lakeward.spec.checks.quarantine import obstacle_of
from lakeward.tables.guard import readers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.operations.quarantine.remove import Report
    from lakeward.platform.runtime import Project, Runtime
    from lakeward.quality.runs.process import Emit
    from lakeward.spec.model.suite import Expectation, Suite

ROUNDS = 3
"""How often rows are moved and the rest is checked before a person has to decide."""
Opens = Callable[["Sequence[Assignment]"], AbstractContextManager["SparkSession"]]


@dataclass
class Policy:
    """The policy of one table's suite.

    Attributes:
        connect, registry_url, runtime, project: registry, addresses and project.
        opens: opens a session with the lake's catalog for the streams that land in the table.
        emit: logs progress: level, sentence, fields.
    """

    suite: Suite
    connect: Connect
    registry_url: str
    runtime: Runtime
    project: Project
    opens: Opens
    emit: Emit
    reports: list[Report] = field(default_factory=list)

    @property
    def table(self) -> str:
        """The table of the suite."""
        return str(self.suite.table)

    def due(self, result: RunDocument) -> bool:
        """Whether a held run has failures of checks with the policy. Cheap; the policy may still decline."""
        same = result["suite"] == self.suite.digest
        return same and quarantine_policy.decide(Verdict(result["verdict"]), result["checks"]) is not None

    def carry_out(self) -> RunDocument | None:
        """Apply the policy to the newest run.

        Returns:
            The newest run afterwards, as the contract's JSON of `quality show`; None if the table was never checked.

        Raises:
            LakewardError: the registry, the catalog or Spark does not answer. Rows that have moved are recorded. The
                same call, or the next check run, continues.
        """
        result = self._newest()
        if result is None or not self.due(result):
            return result
        streams, incremental_readers, decided = self._decided(result)
        if decided is None or not decided.checks:
            return self._left(result, decided)
        self.emit("warning", f"{quarantine_policy.LINE}{decided.why} now (on_fail: quarantine)", {})
        with self.opens(streams) as spark:
            for _ in range(ROUNDS):
                try:
                    done = self._moved(spark, streams, incremental_readers, decided.checks, result)
                except LakewardError as error:
                    if error.exit_code == 3:
                        raise
                    return self._left(result, Decision((), ": ".join(filter(None, [error.what, error.why]))))
                result = self._checked(done)
                _, _, decided = self._decided(result)
                if decided is None or not decided.checks:
                    return self._left(result, decided)
                if not any(report.moved for report in done):
                    return self._left(result, Decision((), "none of the failing rows may move; see the rows that stay"))
        why = f"failing rows landed again in each of {ROUNDS} rounds; a rule of the stream would keep them out"
        return self._left(result, Decision((), why))

    def _newest(self) -> RunDocument | None:
        with self.connect() as connection:
            newest = next(iter(verifications.newest(connection, self.table, limit=1)), None)
            return recorded(newest, verifications.checks_of(connection, newest["run"])) if newest else None

    def _decided(self, result: RunDocument) -> tuple[list[Assignment], list[str], Decision | None]:
        with self.connect() as connection:
            try:
                streams, _ = landing(connection, self.table)
            except LakewardError as error:
                streams, why = [], error.what
            incremental_readers = sorted(
                {reader.stream for reader in readers.registered(connection).get(self.table, ())}
            )
        if streams:
            why = obstacle_of(self.table, [assignment.spec for assignment in streams], incremental_readers)
        return streams, incremental_readers, quarantine_policy.decide(Verdict(result["verdict"]), result["checks"], why)

    def _moved(
        self,
        spark: SparkSession,
        streams: list[Assignment],
        incremental_readers: list[str],
        checks: Sequence[str],
        run: RunDocument,
    ) -> list[Report]:
        """Move the failing rows of the checks to quarantine."""
        by_id: dict[str, Expectation] = dict(zip(ids(self.suite), self.suite.expectations, strict=True))
        file = f"expectations/{self.table}.yaml"
        first = run["first_bad_snapshot"]
        since = f", bad since snapshot {first}" if first else ""
        by = QuarantineBy(
            f"policy ({file})", file, f"on_fail: quarantine, run {run['run']}{since}", {"run": run["run"]}
        )
        done = []
        for id in checks:
            failing = failing_rows(self.connect, self.runtime, self.table, by_id[id], by_policy=True)
            for assignment in streams:
                report = move_failing_rows(
                    spark, assignment, self.runtime, failing, self.connect, by, readers=incremental_readers
                )
                done.append(report)
                self._report(report, by)
        self.reports += done
        return done

    def _report(self, report: Report, by: QuarantineBy) -> None:
        for entry in report.left:
            self.emit(
                "warning", f"{quarantine_policy.LINE}{quarantine_policy.rows(entry['count'])} stay: {entry['why']}", {}
            )
        if report.seq is None:
            return
        text = sentence(report, by)
        self.emit("warning", f"{quarantine_policy.LINE}{text}", {})
        with self.connect() as connection:
            incident.add(connection, self.table, f"{quarantine_policy.LINE}{text}")

    def _checked(self, done: list[Report]) -> RunDocument:
        """Check the table again, up to the newest commit that removed rows, if there is one."""
        tokens = {report.token for report in done if report.token}
        history = metadata.history(metadata.catalog(self.runtime), self.table)
        upto = next((snapshot.id for snapshot in history.ancestry(history.head) if snapshot.wap_id in tokens), None)
        (result,) = check(self.runtime, self.registry_url, self.project, [self.table], upto=upto, emit=self.emit)
        return result

    def _left(self, result: RunDocument, decided: Decision | None) -> RunDocument:
        """End the policy; if a person has to decide, record that in the log, the run, the incident and the timeline."""
        if decided is not None:
            line = quarantine_policy.declined(decided.why, self.table)
            self.emit("error", line, {})
            with self.connect() as connection:
                verifications.add_note(connection, result["run"], line)
                incident.add(connection, self.table, line)
                events.record(connection, "table", self.table, "quarantine_left", line, run=result["run"])
        return self._newest() or result
