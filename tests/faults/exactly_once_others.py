"""Streams that a round hosts beside those of the campaign, on topics of their own, and that its SIGKILL ends with them.

One has a record that does not fit, and dies between its quarantine and its publication. A task of another one loses its
Python worker before. A hop, from topic to topic without batches, has sent rows since its last boundary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exactly_once_arming import Armed
from exactly_once_round import Rounds
from world import simple_stream, wait_for

ROWS = 120
DIES_ONCE = """\
import os, pathlib
def run(source):
    def passed(frames):
        for each in frames:
            if not (died := pathlib.Path({died!r})).exists():
                died.touch()
                os.kill(os.getpid(), 9)
            yield each
    return source.mapInPandas(passed, source.schema)
"""


class WithOthers(Rounds):
    """A round of the gate; see `deploy_others`."""

    def deploy_others(self) -> None:
        """Deploy the three streams, and send their first records."""
        world = self.world
        topic = world.kafka.create_topic(partitions=2)
        self.bad, self.worker, self.hop = (f"{world.name}_{name}" for name in ("bad", "worker", "hop"))
        self.died = world.folder / "died"
        world.deploy(simple_stream(self.bad, topic, self._table("bad")))
        transform = {"python": "mine:run", "code": {"mine": DIES_ONCE.format(died=str(self.died))}}
        world.deploy(simple_stream(self.worker, topic, self._table("worker"), transform=transform))
        world.numbers(topic, range(ROWS))
        world.produce(topic, ["junk"])

        self.source, self.out = world.kafka.create_topic(partitions=1), world.kafka.create_topic(partitions=1)
        document = simple_stream(
            self.hop, self.source, self._table("hop"), source={"kafka": {"topics": [self.source]}},
            sink={"kafka": {"topic": self.out}}, trigger={"real_time": "5s"}, lineage="none",
        )  # fmt: skip
        world.deploy(document)
        world.numbers(self.source, range(100))

    def _table(self, name: str) -> str:
        return f"{self.world.name}.{name}"

    @property
    def _quarantined(self) -> Path:
        return self.arms.folder / f"{self.bad}.after-quarantine"

    def arm(self, steps: Mapping[str, str], later: int) -> dict[str, Armed]:
        armed = super().arm(steps, later)
        self._quarantined.write_text("0")
        return armed

    def arrived(self, armed: Mapping[str, Armed]) -> set[str]:
        found = super().arrived(armed)
        wait_for("the quarantine", lambda: Path(f"{self._quarantined}.reached").exists())
        self.world.wait_landed(self._table("worker"), self.worker, ROWS)
        wait_for("a boundary of the hop", self._past_a_boundary)
        self.world.numbers(self.source, range(100, 200))
        self.world.produce(self.source, ["junk"])
        wait_for("more rows", lambda: len(self._sent()) >= 200)
        return found

    def _past_a_boundary(self) -> bool:
        seen = self.world.observation(self.hop)
        return len(self._sent()) >= 100 and seen is not None and seen.batch_id is not None

    def kill(self) -> None:
        """The records that come meanwhile are the next driver's."""
        begun = self.driver is not None and not self._more
        super().kill()
        if begun:
            self._more = True
            self.world.numbers(self.source, range(200, 300))

    _more = False

    def _sent(self) -> list[int]:
        return [json.loads(message.value())["n"] for message in self.world.kafka.sent(self.out)]

    def others(self) -> dict[str, Any]:
        """What the streams left, once everything has landed."""
        world = self.world
        world.wait_landed(self._table("bad"), self.bad, ROWS)
        wait_for("the last row of the hop", lambda: 299 in self._sent())
        wait_for("the bad record of the hop", lambda: world.rows(self._table("hop_quarantine")))
        sent = self._sent()
        failed = [line for each in world.started for line in each.events("stream failed, will restart")]
        return {
            "rows": [sorted(row["n"] for row in world.rows(self._table(name))) for name in ("bad", "worker")],
            "quarantine": [
                [bytes(row["raw"]) for row in world.rows(self._table(f"{name}_quarantine"))] for name in ("bad", "hop")
            ],
            "totals": world.position(self._table("bad"), self.bad)["totals"],
            "lost its worker": self.died.exists(),
            "failed": [line for line in failed if line.get("stream") == self.worker],
            "hop": sorted(set(sent)),
            "hop, twice": sorted({n for n in sent if sent.count(n) > 1 and n < 100}),
        }
