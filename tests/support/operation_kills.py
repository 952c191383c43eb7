"""`lakeward tables restore` and `lakeward tables erase` killed by SIGKILL at each of their steps, then asked again.

The table was landed by a stream that is retired: it has a position, and no driver has to be stopped first.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from maintenance_kills import NAMESPACE, SCRIPT, Rig, Trial, in_this_process
from sqlalchemy import text

from lakeward.connectors.commit_protocol.position import Position, Totals, key, of_properties, streams_of
from lakeward.connectors.iceberg.pyiceberg_table import state_of
from lakeward.operations.erase.erase import MARKER as ERASING
from lakeward.operations.restore.restore import MARKER as RESTORING
from lakeward.platform import private
from lakeward.platform.runtime import Runtime
from lakeward.registry import batches, leases, maintenance, streams
from lakeward.tables.guard.actor import SCOPE

FORMAT = "operation"
STEPS = {
    "restore": ("restore-stopped", "restore-before-commit", "restore-moved"),
    "erase": ("erase-stopped", "erase-before-commit", "erase-rewritten", "erase-forgotten", "erase-one-deleted"),
}
NAME = "ann"
BATCHES = 4
COLUMNS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def trials(seed: int) -> list[Trial]:
    """Each step of each once, in an order of the seed."""
    found = [Trial(seed, action, step, FORMAT) for action, steps in STEPS.items() for step in steps]
    random.Random(seed).shuffle(found)
    return found


class OperationRig(Rig):
    """Makes tables with a position and a proven snapshot, and has them restored or erased from by processes."""

    def __init__(
        self, runtime: Runtime, folder: Path, spark: None = None, fault: str = "-", *, here: bool = False
    ) -> None:
        super().__init__(runtime, folder, spark, fault, here=here)
        secrets = private.folder(self.home.secrets)
        private.write(secrets / self.home.registry_url_file.name, runtime.registry_url_file.read_text())
        assert runtime.pgpass is not None
        private.write(secrets / self.home.pgpass.name, runtime.pgpass.read_text())

    def run(self, trial: Trial) -> dict[str, Any]:
        """One trial as a line of results: `problems` is empty when everything held."""
        table = self._make(trial.action)
        before = self._state(table)
        more = {
            "restore": ["--to", str(self._snapshots(table)[0])],
            "erase": ["--where", f"name = '{NAME}'"],
        }[trial.action]
        words = self._words(table, trial.action, *more)
        armed = {"LAKEWARD_FAILPOINTS_ALLOWED": "1", "LAKEWARD_FAILPOINT": trial.step}
        code, _ = self._command(words, **armed)
        found = [f"after the kill: {each}" for each in self._half(trial.action, before, self._state(table))]
        with self.site.registry() as connection:  # its lease would lapse in a minute
            connection.execute(text("UPDATE leases SET until = now() - interval '1 second' WHERE scope = 'table'"))
        again, said = in_this_process(words) if self.here else self._command(words, self.fault)
        if again:
            found.append(f"the same command ended with {again}: {said[-300:]}")
        after = self._state(table)
        found += [f"at the end: {each}" for each in self._half(trial.action, before, after)]
        if after == before:
            found.append("at the end: nothing was done")
        found += self._left(table, trial.action)
        self.site.catalog.drop_table(table)
        line = {"seed": trial.name, "action": trial.action, "step": trial.step, "killed": code == -signal.SIGKILL}
        return line | {"ok": not found, "problems": found}

    def _make(self, action: str) -> str:
        """A table of four batches, each of the name that is erased; the second is proven."""
        stream, table = f"k-{uuid.uuid4().hex[:10]}", f"{NAMESPACE}.{action}_{uuid.uuid4().hex[:10]}"
        made = self.site.catalog.create_table(table, COLUMNS, properties={"format-version": "2"})
        with self.site.registry() as connection:
            streams.accept(connection, stream, generation=1, driver="d", desired="stopped")
            streams.remove(connection, stream)
        for seq in range(1, BATCHES + 1):
            ids = [seq * 10 + n for n in range(5)]
            rows = pa.table({"id": ids, "name": [NAME if n % 10 == seq else f"n{n}" for n in ids]}, schema=COLUMNS)
            made.append(rows, snapshot_properties={"lakeward.attempt": f"{stream}/{seq}/x"})
            head = made.refresh().current_snapshot()
            assert head is not None
            landed = Position(
                seq=seq, query_id="q", batch=seq - 1, end={"source": _at(seq)}, begin={"source": _at(0)},
                snapshot=head.snapshot_id, snapshot_seq=head.sequence_number or 0,
                totals=Totals(consumed=5 * seq, landed=5 * seq), attempt=f"{stream}/{seq}/x",
            )  # fmt: skip
            with made.transaction() as change:
                change.set_properties({key(stream): landed.to_json()})
            with self.site.registry() as connection:
                batches.record(
                    connection, stream=stream, query_id="q", batch_id=seq - 1, seq=seq, generation=1,
                    snapshot_id=head.snapshot_id, start_offsets={"source": _at(seq - 1)},
                    end_offsets={"source": _at(seq)}, consumed=5, landed=5, quarantined=0, filtered=0,
                )  # fmt: skip
            if seq == 2:
                made.manage_snapshots().create_branch(head.snapshot_id, "verified").commit()
        return table

    def _snapshots(self, table: str) -> list[int]:
        """Of main, oldest first."""
        return [each.snapshot_id for each in self.site.load(table).history()]

    def _state(self, table: str) -> dict[str, Any]:
        """Rows of main and of what is proven, by value, and how far the table says it is landed."""
        loaded = self.site.load(table)
        refs = loaded.metadata.refs
        rows = {
            name: sorted(_rows(loaded.scan(snapshot_id=refs[name].snapshot_id))) if name in refs else None
            for name in ("main", "verified")
        }
        (at,) = of_properties(loaded.properties, table).values()
        return {**rows, "end": at.end["source"], "landed": at.totals.landed}

    @staticmethod
    def _half(action: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
        """What is neither as before nor done."""
        if action == "restore":  # data, position and branch are one commit
            done = {"main": [each for each in before["main"] if each[0] < 20], "verified": None}
            done |= {"end": _at(1), "landed": 5}
            return [] if now in (before, done) else [f"neither as before nor done: {now}"]
        left = [each for each in before["main"] if each[1] != NAME]
        found = []
        if now["main"] not in (before["main"], left):
            found.append(f"neither the rows before nor those without: {now['main']}")
        if now["verified"] not in (before["verified"], None):
            found.append(f"what is proven is neither as before nor gone: {now['verified']}")
        return found + [f"{n} is {now[n]}, was {before[n]}" for n in ("end", "landed") if now[n] != before[n]]

    def _left(self, table: str, action: str) -> list[str]:
        """What nobody cleaned up."""
        loaded, found = self.site.load(table), []
        with self.site.registry() as connection:
            open_ones = maintenance.unfinished_actions(connection, table)
            newest = [(each["action"], each["result"]) for each in maintenance.newest_actions(connection, table, 1)]
            lease = leases.current(connection, SCOPE, [table]).get(table)
        if open_ones:
            found.append(f"{len(open_ones)} actions stand in the ledger as if they ran")
        if newest != [(action, "done")]:
            found.append(f"the ledger ends with {newest}")
        if lease is not None and lease.live:
            found.append(f"the lease is held by {lease.holder}")
        if not all(state_of(loaded.metadata, each, table).ancestry.right for each in streams_of(loaded.properties)):
            found.append("the position names no snapshot of main")
        if MARK[action] in loaded.properties:
            found.append("the table still says that it is under way")
        if action == "erase":
            folder = Path(loaded.location().removeprefix("file://").removeprefix("file:"))
            held = [each.name for each in folder.rglob("*.parquet") if NAME in pq.read_table(each)["name"].to_pylist()]
            found += [f"{each} holds such a row" for each in held]
            found += [f"{each.name} was left" for each in folder.rglob(".lakeward-erase-*")]
        return found

    def _words(self, table: str, action: str, *more: str) -> list[str]:
        words = ["tables", action, table, *more, "--comment", "a reason", "--yes", "-o", "json"]
        return [*words, "--home", str(self.home.root), "--project", str(self.site.project.root)]

    @staticmethod
    def _command(words: list[str], fault: str = "-", **environment: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), fault, *words],
            capture_output=True, text=True, check=False, env={**os.environ, **environment},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


MARK = {"restore": RESTORING, "erase": ERASING}


def _at(offset: int) -> str:
    return f'{{"t":{{"0":{offset}}}}}'


def _rows(scan: Any) -> list[tuple[int, str]]:
    return [(row["id"], row["name"]) for row in scan.to_arrow().to_pylist()]
