"""Races for a position in a real Hive Metastore. Prints what each race left, as JSON.

    [LAKEWARD_LOST_ANSWERS=60] python hive_fence_program.py FOLDER [--unfenced] [--database=FILE]

`--unfenced` commits a publication on the newest metadata instead of the checked one: the races must then find what the
comparison prevents. `--database` is the file of `metastore.on_postgres`; without one the metastore has Derby.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from rest_fence_program import Races, started

sys.path.append(str(Path(__file__).parents[1] / "support"))  # of the tests, which alone have it on their path
import lossy_metastore
import metastore

from lakeward.connectors.commit_protocol.position import key
from lakeward.connectors.iceberg import position_store, publish
from lakeward.platform.runtime import Lake
from lakeward.telemetry import failpoints


class HiveRaces(Races):
    """The races, with the answers of a metastore in place of those of a REST server."""

    proxy: Any

    def lost_answers(self) -> dict[str, Any]:
        """The metastore alters a table, and its answer is lost: to a staging, to a publication, or to both."""
        chance, lost, tries = random.Random(2), 0, 0
        for batch in range(self.trials):
            self.proxy.lose(chance.choice((1, 2)))
            for _ in range(6):
                tries += 1
                if self.land(batch) in ("landed", "already"):
                    break
            lost += self.proxy.lost
            self.proxy.lose(0)
        return self.left(trials=self.trials, lost=lost, tries=tries)

    def moved_and_not_answered(self) -> dict[str, Any]:
        """The metastore moves a position for a person, and its answer is lost."""
        self.land(0)
        raw = self.metadata().properties()[key("flights")]
        new = self.position().model_copy(update={"seq": 2, "query_id": "", "batch": -1, "attempt": "reset/1"})
        self.proxy.lose(1)
        try:
            position_store.write_position(self.catalog, self.table, "flights", new, raw)
            outcome = "moved"
        except Exception as error:  # noqa: BLE001  # its kind is the outcome
            outcome = getattr(error, "code", type(error).__name__)
        return self.left(lost=self.proxy.lost, outcome=outcome)


def unchecked(transaction: Any, name: str, text: str) -> None:
    """`publish.commit` without its comparison."""
    transaction.updateProperties().set(name, text).commit()
    failpoints.hit("before-publish")
    operations = transaction.underlyingOps()
    operations.commit(operations.refresh(), transaction.currentMetadata())


def main(folder: Path, unfenced: bool, trials: int, database: Path | None) -> None:
    if unfenced:
        publish.commit = unchecked
    with metastore.running(folder, database) as hive, lossy_metastore.running(hive.port) as proxy:
        through = {**hive.properties, "uri": f"thrift://127.0.0.1:{proxy.port}"}
        lake = Lake(warehouse=str(hive.warehouse), properties=through)
        with started(folder, lake) as spark:
            races = HiveRaces(spark, lake, proxy, trials)  # type: ignore[arg-type]  # a proxy of another protocol
            for race in (
                races.rolled_back, races.moved_in_a_driver, races.fenced_by_a_move,
                *(() if unfenced else (races.two_writers, races.moved_without_a_driver, races.grown)),
                *(() if unfenced else (races.lost_answers, races.moved_and_not_answered)),
            ):  # fmt: skip
                races.create(race.__name__)
                print(json.dumps({"race": race.__name__, **race()}), flush=True)


if __name__ == "__main__":
    chosen = [Path(each.partition("=")[2]) for each in sys.argv if each.startswith("--database=")]
    lost_answers = int(os.environ.get("LAKEWARD_LOST_ANSWERS", "6"))
    main(Path(sys.argv[1]), "--unfenced" in sys.argv, lost_answers, next(iter(chosen), None))
