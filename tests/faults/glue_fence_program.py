"""Races for a position in AWS Glue's catalog, as moto has it. Prints what each race left, as JSON.

    [LAKEWARD_LOST_ANSWERS=60] python glue_fence_program.py FOLDER [--unfenced | --unversioned]

`--unfenced` commits a publication on the newest metadata instead of the checked one. `--unversioned` takes every change
of a table, whatever version it names, as moto does by itself. The races must then find what the comparison prevents.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from hive_fence_program import HiveRaces, unchecked
from rest_fence_program import started

sys.path.append(str(Path(__file__).parents[1] / "support"))  # of the tests, which alone have it on their path
import glue

from lakeward.connectors.iceberg import publish


def main(folder: Path, options: list[str], trials: int) -> None:
    unfenced, unversioned = "--unfenced" in options, "--unversioned" in options
    if unfenced:
        publish.commit = unchecked
    with glue.running(folder) as rig:
        rig.compares = not unversioned
        with started(folder, rig.lake) as spark:
            races = HiveRaces(spark, rig.lake, rig, trials)  # type: ignore[arg-type]  # a proxy of another protocol
            chance, both = random.Random(2), threading.Barrier(2)

            def late(operation: str, given: dict[str, Any]) -> None:
                """The clients have compared by then: only the version tells."""
                if operation == "UpdateTable" and not unversioned:
                    time.sleep(chance.uniform(0, 0.25))
                elif operation == "UpdateTable":
                    try:
                        both.wait(6)  # seconds: two changes meet, on a busy machine too
                    except threading.BrokenBarrierError:
                        both.reset()

            rig.answer = late
            for race in (
                *(() if unversioned else (races.rolled_back, races.moved_in_a_driver, races.fenced_by_a_move)),
                *(() if unfenced else (races.two_writers,)),
                *(() if unfenced or unversioned else (races.moved_without_a_driver, races.grown, races.lost_answers)),
                *(() if unfenced or unversioned else (races.moved_and_not_answered,)),
            ):
                races.create(race.__name__)
                print(json.dumps({"race": race.__name__, **race()}), flush=True)
        changes = [given for operation, given in rig.requests if operation == "UpdateTable"]
        named = sum("VersionId" in given and given.get("SkipArchive") is True for given in changes)
        left = {"changes": len(changes), "named": named, "conflicts": rig.conflicts}
        print(json.dumps({"race": "versions", **left}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:], int(os.environ.get("LAKEWARD_LOST_ANSWERS", "6")))
