"""The same kill on a stream written by hand with Iceberg's own sink: here the harness has to find the known double.

Killed between the table's commit and Spark's commit log; then compaction and expiry, which take the snapshot that the
sink would know its batch by; then started again: the batch lands a second time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from exactly_once_arming import CONF, Arms
from exactly_once_evidence import Inquest, Stream
from exactly_once_maintenance import Maintenance
from exactly_once_oracle import judge
from exactly_once_records import PARTITIONS, send
from exactly_once_sinks import Sinks
from exactly_once_streams import BY_NAME, DECODE
from world import World, wait_for

from lakeward.platform.runtime import Launch

_PROGRAM = Path(__file__).parents[1] / "support" / "native_stream.py"


class Native:
    """Trials with a stream that is not Lakeward's."""

    def __init__(self, world: World, maintenance: Maintenance) -> None:
        self._world, self._maintenance = world, maintenance

    def run(self, seed: int) -> list[dict[str, Any]]:
        """One trial; it holds if the double was found."""
        world, dice = self._world, random.Random(f"{seed}/native")
        stream = Stream(BY_NAME["iceberg-append"], f"{world.name}_native{seed}", f"{world.name}.native{seed}", {})
        topic = world.kafka.create_topic(stream.name, partitions=PARTITIONS)
        folder = world.folder / stream.name
        arms = Arms(folder / "failpoints", world.runtime.jars)
        sinks = Sinks(world, folder)
        inquest = Inquest(world, sinks, topic)
        told = {
            "topic": topic, "table": stream.table, "brokers": world.kafka.bootstrap, "columns": DECODE,
            "checkpoint": str(inquest.folder_of(stream)),
        }  # fmt: skip
        (folder / "native.json").write_text(json.dumps(told))
        self._maintenance.sql(
            f"CREATE NAMESPACE IF NOT EXISTS lake.{world.name}",
            f"CREATE TABLE lake.{stream.table} ({DECODE}, _kafka_partition INT, _kafka_offset BIGINT)",
        )
        records = send(world.kafka.bootstrap, topic, dice, 0, 50)
        running = self._start(folder, arms)
        try:
            wait_for("the first batch", lambda: inquest.drained(stream, records))
            [armed] = arms.arm({stream.name: (stream.kind, "after-record", 1, folder)}).values()
            records += send(world.kafka.bootstrap, topic, dice, 50, dice.randint(10, 50))
            wait_for("the stop before the commit log", armed.marker.exists)
            _kill(running)
            arms.disarm()
            self._maintenance.compact(stream.table)
            self._maintenance.expire(stream.table)
            records += send(world.kafka.bootstrap, topic, dice, len(records), 10)
            running = self._start(folder, arms)
            wait_for("the rest", lambda: inquest.drained(stream, records))
        finally:
            _kill(running)
        rows = sinks.rows(stream.kind, stream.name, stream.table)
        found = judge(stream.kind, records, rows)
        problems = [] if found.doubled else ["the known double was not found"]
        return [{
            "seed": f"native {seed}/iceberg-append", "ok": not problems, "kind": "native",
            "what": f"toTable: {len(rows)} rows of {len(records)} records", "doubled": len(rows) - len(records),
            "at": datetime.now(UTC).isoformat(timespec="seconds"), "problems": problems,
        }]  # fmt: skip

    def _start(self, folder: Path, arms: Arms) -> subprocess.Popen[bytes]:
        launch = Launch(driver="native", token="none", folder=folder, runtime=self._world.runtime, conf={
            **CONF, "spark.master": "local[2]", "spark.driver.memory": "1g", "spark.ui.enabled": "false",
        })  # fmt: skip
        launch.write(folder / "launch.json")
        env = {**os.environ, **arms.environment, "PGPASSFILE": str(self._world.pgpass)}
        with (folder / "stdout.log").open("ab") as sink:
            return subprocess.Popen(
                [sys.executable, str(_PROGRAM), str(folder / "launch.json")], stdin=subprocess.DEVNULL, stdout=sink,
                stderr=sink, env=env, start_new_session=True,
            )  # fmt: skip


def _kill(running: subprocess.Popen[bytes]) -> None:
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(30)
