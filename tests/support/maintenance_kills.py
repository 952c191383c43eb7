"""Maintenance killed with SIGKILL at each step of each action, and taken over: what a trial is, and what must hold.

The maintainer is the command in a process of its own; the engine is a Spark Connect server, which goes on with the
statement of a killed client by itself. Another maintainer comes at once: the lease of the dead is made to lapse.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import structlog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from sqlalchemy import text

from lakeward.cli.app import main
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.registry import leases, maintenance
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard import pins
from lakeward.tables.guard.actor import SCOPE
from lakeward.tables.plan import ORDER
from lakeward.tables.plan.orphans import ACTION as ORPHANS

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

OF_TODAY = tuple(each for each in ORDER if each != "tags")
"""What may be due on a table that was made just now: a tag is for the end of yesterday."""
ACTIONS = (*OF_TODAY, ORPHANS)
STEPS = ("begun", "sent", "ran", "judged", "recorded")
"""After its entry in the ledger; at a moment drawn while the server works or after it; once the server answered; once
it was verified; once that is recorded."""
OF_ORPHANS = ("orphans-listed", "orphans-file")
SCRIPT = Path(__file__).with_name("maintainer.py")
PATIENCE_S = 300
NAMESPACE = "killed"
POLICIES = f"""
unsafe:
  - match: {NAMESPACE}.*
    why: tables of a few rows
    compact: {{min_fragments: 4, late_min_fragments: 3, late_after: 1h, cooldown: 1ms, cold_after: 10m}}
    deletes: {{every: 1ms}}
    manifests: {{max_manifests: 5, every: 0s}}
    expire: {{older_than: 1ms, min_snapshots: 1, every: 0s}}
    metadata: {{previous_versions: 3}}
    orphans: {{older_than: 1ms, max_share: 0.9}}
"""
PILES_UP = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")} | {
    "write.delete.granularity": "partition"
}
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "origin", StringType(), required=False)
)
BY_ORIGIN = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="origin"))


@dataclass(frozen=True)
class Trial:
    """One kill."""

    seed: int
    action: str
    step: str

    format: str = "iceberg"

    @property
    def name(self) -> str:
        """Of one trial alone."""
        of = "" if self.format == "iceberg" else f"{self.format}/"
        return f"{self.seed}/{of}{self.action}/{self.step}"


def trials(seed: int) -> list[Trial]:
    """Every action at every step once, in an order of the seed."""
    found = [Trial(seed, action, step) for action in OF_TODAY for step in STEPS]
    found += [Trial(seed, ORPHANS, step) for step in OF_ORPHANS]
    random.Random(seed).shuffle(found)
    return found


class Rig:
    """Makes tables, and has them maintained by processes.

    Args:
        runtime: with a registry, a catalog and a Connect server.
        folder: for the project and the home of the commands.
        spark: to delete rows with; None for a rig that does without.
        fault: planted in the maintainer that takes over.
        here: the command that takes over runs in this process, which spares the start of another.
    """

    def __init__(
        self, runtime: Runtime, folder: Path, spark: SparkSession | None, fault: str = "-", *, here: bool = False
    ) -> None:
        project, self.home = Project(folder), Home(folder / "home")
        project.tables_file.parent.mkdir(parents=True)
        project.tables_file.write_text(POLICIES)
        self.home.root.mkdir()
        self.home.runtime_file.write_text(runtime.model_dump_json())
        self.site, self.spark, self.fault = MaintenanceContext.of(runtime, project), spark, fault
        self.here = here
        self.site.catalog.create_namespace_if_not_exists(NAMESPACE)

    def run(self, trial: Trial) -> dict[str, Any]:
        """One trial as a line of results: `problems` is empty when everything held."""
        table = self._make(trial.action)
        before = self._state(table)
        if trial.action == ORPHANS:
            self._finish(self._maintain(table, ORPHANS, "--dry-run"))  # the first run of all is a dry one
        killed = self._kill(table, trial)
        found = [f"after the kill: {each}" for each in self._differs(before, self._state(table))]
        with self.site.registry() as connection:  # its lease would lapse in a minute
            connection.execute(text("UPDATE leases SET until = now() - interval '1 second' WHERE scope = 'table'"))
        words = self._words(table, trial.action)
        code, said = in_this_process(words) if self.here else self._finish(self._started(words, self.fault))
        if code:
            found.append(f"the next maintainer ended with {code}: {said[-300:]}")
        after = self._state(table)
        found += [f"after the next: {each}" for each in self._differs(before, after)]
        found += self._left(table, trial.action)
        time.sleep(1)
        if self._head(table) != after["head"]:
            found.append("a rewrite of the dead maintainer landed after its successor was done")
        line = {"seed": trial.name, "action": trial.action, "step": trial.step, "killed": killed}
        self._drop(table)
        return line | {"ok": not found, "problems": found}

    def _drop(self, table: str) -> None:
        folder = self.site.load(table).metadata.location.removeprefix("file:")
        self.site.catalog.drop_table(table)
        shutil.rmtree(folder)

    def _make(self, action: str) -> str:
        """A table for which the action is due, with a tag and a proven snapshot."""
        table = f"{NAMESPACE}.t_{uuid.uuid4().hex[:10]}"
        properties = {"format-version": "2"} | (PILES_UP if action == "deletes" else {})
        made = self.site.catalog.create_table(table, SCHEMA, partition_spec=BY_ORIGIN, properties=properties)
        for batch in range(8):
            ids = [batch * 100 + n for n in range(20)]
            origins = [("EWR", "O'Hare")[n % 2] for n in ids]
            made.append(pa.table({"id": pa.array(ids, pa.int64()), "origin": pa.array(origins)}))
            if batch in (2, 4):
                head = made.refresh().current_snapshot()
                assert head is not None
                refs = made.manage_snapshots()
                create = refs.create_tag if batch == 2 else refs.create_branch
                create(head.snapshot_id, "audit" if batch == 2 else "verified").commit()
        if action == "deletes":
            for n in range(7):  # each names rows of every data file
                self.spark.sql(f"DELETE FROM lake.{table} WHERE id % 100 IN ({2 * n}, {2 * n + 1})")
        if action == ORPHANS:
            folder = Path(made.metadata.location.removeprefix("file:"))
            for n in range(4):
                (folder / "data" / f"left{n}.parquet").write_bytes(b"left by a writer that died")
        return table

    def _state(self, table: str) -> dict[str, Any]:
        """Rows of main, of the tag and of what is proven, by value; and main's head."""
        loaded = self.site.load(table)
        rows = {}
        for name in ("main", "audit", "verified"):
            scan = loaded.scan(snapshot_id=loaded.metadata.refs[name].snapshot_id)
            rows[name] = sorted((row["id"], row["origin"]) for row in scan.to_arrow().to_pylist())
        return {**rows, "head": self._head(table)}

    def _head(self, table: str) -> int | None:
        head = self.site.load(table).current_snapshot()
        return None if head is None else head.snapshot_id

    @staticmethod
    def _differs(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
        names = [each for each in before if each != "head"]
        return [f"{len(after[n])} rows of {n}, {len(before[n])} before" for n in names if before[n] != after[n]]

    def _left(self, table: str, action: str) -> list[str]:
        """What nobody cleaned up."""
        found = []
        with self.site.registry() as connection:
            open_ones = maintenance.unfinished_actions(connection, table)
            lease = leases.current(connection, SCOPE, [table]).get(table)
        if open_ones:
            found.append(f"{len(open_ones)} actions stand in the ledger as if they ran")
        if lease is not None and lease.live:
            found.append(f"the lease is held by {lease.holder}")
        with patch.object(pins, "STAGED_FLOOR", timedelta(0)):  # as the maintainer has it
            said = run.maintain(self.site.runtime, self.site.project, table, [action], dry_run=True)
        due = [each["action"] for each in said["plan"]["actions"] if each["files"]]
        if due:
            found.append(f"still due: {', '.join(due)}")
        return found

    def _words(self, table: str, action: str, *more: str) -> list[str]:
        """The command that maintains a table."""
        words = ["tables", "maintain", table, "--actions", action, *more, "-o", "json"]
        return [*words, "--home", str(self.home.root), "--project", str(self.site.project.root)]

    def _maintain(self, table: str, action: str, *more: str, **environment: str) -> subprocess.Popen[str]:
        return self._started(self._words(table, action, *more), **environment)

    @staticmethod
    def _started(words: list[str], fault: str = "-", **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), fault, *words],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment},
        )  # fmt: skip

    @staticmethod
    def _finish(process: subprocess.Popen[str]) -> tuple[int, str]:
        said, _ = process.communicate(timeout=PATIENCE_S)
        return process.returncode, said

    def _kill(self, table: str, trial: Trial) -> bool:
        """Let a maintainer die at its step; False when it was done before that."""
        if trial.step != "sent":
            step = trial.step if trial.action == ORPHANS else f"maintain-{trial.step}"
            armed = {"LAKEWARD_FAILPOINTS_ALLOWED": "1", "LAKEWARD_FAILPOINT": step}
            code, _ = self._finish(self._maintain(table, trial.action, **armed))
            return code == -signal.SIGKILL
        process = self._maintain(table, trial.action)
        self._wait(lambda: self._began(table) or process.poll() is not None)
        time.sleep(random.Random(f"{trial.seed} {trial.action}").uniform(0, 1.5))
        process.kill()
        return self._finish(process)[0] == -signal.SIGKILL

    def _began(self, table: str) -> bool:
        with self.site.registry() as connection:
            return bool(maintenance.newest_actions(connection, table, 1))

    @staticmethod
    def _wait(done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < end, "the maintainer did not begin"
            time.sleep(0.02)


def in_this_process(words: list[str]) -> tuple[int, str]:
    """Exit code and output of a command that runs here, as `maintainer.py` runs it without a fault."""
    code, said = 0, io.StringIO()
    with patch.object(pins, "STAGED_FLOOR", timedelta(0)), redirect_stdout(said), redirect_stderr(said):
        try:
            main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    structlog.reset_defaults()
    return code, said.getvalue()
