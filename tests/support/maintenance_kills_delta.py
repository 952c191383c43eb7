"""The same kills on Delta tables: OPTIMIZE and VACUUM."""

from __future__ import annotations

import random
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

from maintenance_kills import NAMESPACE, STEPS, Rig, Trial

from lakeward.connectors.delta import location, log, state
from lakeward.tables.verify_delta import folder_state

OPERATION = {"compact": "OPTIMIZE", "expire": "OPTIMIZE"}
"""Action -> what its commit is called, or the one before it: a VACUUM that died begins again, and commits no change."""
MADE = 4
"""The version a table has before it is maintained."""


def trials(seed: int) -> list[Trial]:
    """Every action at every step once, in an order of the seed."""
    found = [Trial(seed, action, step, "delta") for action in OPERATION for step in STEPS]
    random.Random(seed).shuffle(found)
    return found


class DeltaRig(Rig):
    """Makes Delta tables."""

    def _make(self, action: str) -> str:
        """A table for which the action is due."""
        table = f"{NAMESPACE}.{action}_{uuid.uuid4().hex[:10]}"
        at = location.by_path(self._folder(table))
        self.spark.sql(f"CREATE TABLE {at} (id BIGINT, origin STRING) USING delta PARTITIONED BY (origin)")
        for batch in range(MADE):
            origin = "IF(id % 2 = 0, 'EWR', \"O'Hare\")"
            self.spark.sql(f"INSERT INTO {at} SELECT id, {origin} FROM range({20 * batch}, {20 * batch + 20}, 1, 1)")
        if action == "expire":
            self.spark.sql(f"OPTIMIZE {at}").collect()
            time.sleep(1)  # VACUUM counts in thirds of a second
        return table

    def _folder(self, table: str) -> Path:
        return location.folder_of(self.site.runtime.lake, table)

    def _state(self, table: str) -> dict[str, Any]:
        """Rows by value: of the newest version, and of the one it was made as unless a VACUUM may take its files; live
        files that are not there; and the newest version."""
        now, at = self._now(table), location.by_path(self._folder(table))
        versions = {"main": at} | ({} if ".expire_" in table else {"made": f"{at} VERSION AS OF {MADE}"})
        rows = {
            name: sorted(map(tuple, self.spark.sql(f"SELECT id, origin FROM {of}").collect()))
            for name, of in versions.items()
        }
        return {**rows, "missing": folder_state(now).missing, "head": now.version}

    def _now(self, table: str) -> state.State:
        found = state.read(self._folder(table))
        assert found is not None
        return found

    def _head(self, table: str) -> int | None:
        return self._now(table).version

    def _left(self, table: str, action: str) -> list[str]:
        """What nobody cleaned up, and what was done twice."""
        found, now = super()._left(table, action), self._now(table)
        commits = [log.commit(now.folder, version) for version in now.versions]
        made = [each.operation for each in commits if each is not None].count(OPERATION[action])
        if made != 1:
            found.append(f"{made} commits of {OPERATION[action]}, where one does it")
        if action == "expire" and (stays := folder_state(now).removed_present):
            found.append(f"{len(stays)} files that no version needs stand there still")
        return found

    def _drop(self, table: str) -> None:
        shutil.rmtree(self._folder(table))
