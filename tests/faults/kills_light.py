"""The campaign of kills once more, of a stand-in: how long the supervision itself takes, often enough for a percentile.

A whole stack supervises many small programs that keep the launch contract (`tests/support/small_driver.py`) and say of
a batch every second that it is landed; nothing lands. A trial is a seed: it decides the moment of a SIGKILL. Measured
as in `kills.py`. One JSON line a trial; a seed that stands there is not run again. A few are killed at the same time,
fewer than what would hold restarts back (`lakeward.supervision.decide.thrash`).

    python tests/faults/kills_light.py --seeds 1-200
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import busy
from busy import Watched
from campaign import ROOT, known, seeds
from kills import aftermath, summary
from sqlalchemy import select

from lakeward.demo.stand import DemoStack
from lakeward.platform.runtime import Home, Project
from lakeward.registry import drivers
from lakeward.registry.schema import observations
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.backends.local import WRAPPER, LocalBackend

RESULTS = ROOT / "docs" / "explanation" / "kills-light.jsonl"
SMALL_DRIVER = ROOT / "tests" / "support" / "small_driver.py"
DRIVERS, AT_ONCE = 20, 4
STREAM = """
owner: tests
source:
  kafka: {topics: [light], max_offsets_per_trigger: 1000}
decode: {json: "n BIGINT"}
sink:
  iceberg: {table: light.NAME}
trigger: {every: 10s}
resources: {driver: NAME}
"""


class Trials(Watched):
    """Kills one stand-in, trial by trial. Its stream has its name."""

    def run(self, seed: int) -> dict[str, Any]:
        """One trial, begun while it says of batch after batch that it is landed."""
        dice = random.Random(f"{seed}/light")
        self.when("it runs", lambda: self._job() and self.now())
        self.when("batches land", self._landed)
        time.sleep(dice.uniform(0.0, 12.0))
        token, begun = self.token(), self.now()
        job = self._job()
        assert job is not None, f"{self.driver} ended by itself"
        LocalBackend(self.stand.home.drivers).kill(job)
        told = f"SIGKILL to {self.driver} ({(job.handle or {}).get('pid')})"
        return aftermath(self, begun, token, told, self._landed)

    def _job(self) -> Job | None:
        """Its living process."""
        found = LocalBackend(self.stand.home.drivers).find()
        return next((each for each in found if each.driver == self.driver and each.life is Life.ALIVE), None)

    def _landed(self) -> datetime | None:
        """When the newest launch landed last; None before there is one, and before it did."""
        with self.stand.registry() as connection:
            launch = drivers.find(connection, self.driver)
            if launch is None:
                return None
            newest = select(observations.c.committed_at).where(
                observations.c.stream == self.driver, observations.c.committed_at > launch.launched_at
            )
            return connection.execute(newest).scalar_one_or_none()


@contextmanager
def stand(home: Path, names: Sequence[str]) -> Iterator[DemoStack]:
    """A whole stack that supervises a stand-in of each name."""
    project = home / "project"
    (project / "conf" / "streams").mkdir(parents=True, exist_ok=True)
    for name in names:
        (project / "conf" / "streams" / f"{name}.yaml").write_text(STREAM.replace("NAME", name))
    shutil.copytree(ROOT / "dags", project / "dags", dirs_exist_ok=True)
    os.environ[WRAPPER] = shlex.join([sys.executable, str(SMALL_DRIVER)])  # the stack hands it on
    made = DemoStack(Project(project), Home(home), lambda line: print(line, flush=True))
    try:
        made.home.drivers.mkdir(parents=True, exist_ok=True)
        (made.home.drivers / "mode").write_text("calm")
        made.up()
        yield made
    finally:
        made.down()


def main(argv: list[str] | None = None) -> int:
    """Run the trials that are missing; exit code 0 only if every one held."""
    parser = busy.arguments_of(__doc__, RESULTS, "kills-light")
    parser.add_argument("--seeds", type=seeds, default=seeds("1-200"), help="e.g. 1-200 or 1,4,7-9")
    options = parser.parse_args(argv)
    lines = known(options.results)
    wanted = [seed for seed in options.seeds if seed not in lines]
    if wanted:
        names = [f"light{number:02}" for number in range(DRIVERS)]
        free: SimpleQueue[str] = SimpleQueue()
        for name in names:
            free.put(name)

        def trial(seed: int) -> dict[str, Any]:
            name = free.get()  # whoever was killed longest ago
            line = {"seed": seed, **Trials(chosen, name).run(seed)}
            free.put(name)
            return line

        with stand(options.home, names) as chosen, ThreadPoolExecutor(AT_ONCE) as pool:
            for each in as_completed([pool.submit(trial, seed) for seed in wanted]):
                line = each.result()
                lines[line["seed"]] = line
                busy.append(options.results, line)
    found = [lines[seed] for seed in options.seeds if seed in lines]
    print(summary(found))
    return 0 if all(line["ok"] for line in found) else 1


if __name__ == "__main__":
    sys.exit(main())
