"""Zombies: a driver stopped with a batch checked or staged wakes when its successor has landed several others.

What they were checked against, or had staged, was compacted and expired meanwhile; and they cannot reach the registry,
so that no lease and no token stops them: only the sink can. One zombie process holds a batch of every (sink, mode).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from exactly_once_maintenance import Maintenance
from exactly_once_oracle import judge
from exactly_once_round import Rounds
from exactly_once_streams import ALL, Kind
from proxy import Proxy
from sqlalchemy import make_url
from world import World

from lakeward.platform.runtime import Runtime
from lakeward.stack import private

STEPS = ("after-check", "after-stage")
_ALIKE = ("iceberg-available-now", "iceberg-windows", "iceberg-deduplicate")
"""They publish as others do."""
KINDS = tuple(kind for kind in ALL if kind.exact and kind.name not in _ALIKE)
SUCCESSIONS = 3


class Zombies:
    """Trials with zombies in one world."""

    def __init__(self, world: World, maintenance: Maintenance) -> None:
        self._world, self._maintenance = world, maintenance

    def run(self, seed: int, kinds: Sequence[Kind] = KINDS) -> list[dict[str, Any]]:
        """One zombie process; a line for each stream."""
        dice = random.Random(f"{seed}/zombies")
        world, whole = self._world, self._world.runtime
        rounds = Rounds(world, kinds, name=f"z{seed}")
        registry = Proxy(make_url(world.url).port or 5432)
        try:
            world.runtime = through(registry, world, world.folder / f"z{seed}")
            rounds.produce(dice, dice.randint(20, 50))
            rounds.launch()
            world.runtime = whole
            rounds.land()
            steps = {kind.name: dice.choice(STEPS) for kind in kinds}
            armed = rounds.arm(steps, 0)
            rounds.produce(dice, dice.randint(20, 50))
            reached = rounds.arrived(armed)
            zombie, rounds.driver = rounds.driver, None
            assert zombie is not None
            zombie.freeze()
            return self._succeed(seed, dice, rounds, zombie, registry, steps, reached)
        finally:
            world.runtime = whole
            registry.close()
            rounds.remove()

    def _succeed(
        self, seed: int, dice: random.Random, rounds: Rounds, zombie: Any, registry: Proxy, steps: Mapping[str, str],
        reached: set[str],
    ) -> list[dict[str, Any]]:  # fmt: skip
        rounds.armed = False  # the successor does not stop where the zombie does
        rounds.launch()
        for _ in range(SUCCESSIONS):
            rounds.produce(dice, dice.randint(10, 30))
            rounds.land()
        for each in rounds.streams:
            if each.kind.lake:
                self._maintenance.shrink(each.kind, each.table)
        before = {each.name: self._position(rounds, each) for each in rounds.streams}
        registry.set("hole")
        rounds.arms.disarm()
        zombie.wake()
        try:
            code: int | None = zombie.exit(120)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(zombie.pid, signal.SIGKILL)
            zombie.process.wait(30)
        after = {each.name: self._position(rounds, each) for each in rounds.streams}
        rounds.produce(dice, dice.randint(10, 20))
        rounds.land()
        met = {line.get("stream") for line in zombie.log() if _fenced(line)}
        lines = []
        for each in rounds.streams:
            problems = []
            if before[each.name] != after[each.name]:
                problems.append(f"the zombie moved the position: {before[each.name]} -> {after[each.name]}")
            if code != 75:
                problems.append(f"the zombie ended with {code}")
            problems += judge(each.kind, rounds.records, rounds.rows(each)).problems
            lines.append({
                "seed": f"zombie {seed}/{each.kind.name}", "ok": not problems, "kind": "zombie",
                "stream": each.kind.name, "wished": steps[each.kind.name], "reached": each.name in reached,
                "met": each.name in met, "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "records": len(rounds.records), "problems": problems,
            })  # fmt: skip
        return lines

    @staticmethod
    def _position(rounds: Rounds, stream: Any) -> str | None:
        found = rounds.sinks.position(stream.kind, stream.name, stream.table, stream.document)
        return found.to_json() if found else None


def _fenced(line: Mapping[str, Any]) -> bool:
    """Whether a line of the zombie's log says that its publication was refused; the others died with the process."""
    return "moved" in str(line.get("why", "")) or "Another writer moved its position" in str(line.get("error", ""))


def through(registry: Proxy, world: World, folder: Path) -> Runtime:
    """The runtime of a driver that reaches the registry through a proxy only."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "registry.url"
    file.write_text(make_url(world.url).set(port=registry.port).render_as_string(hide_password=False))
    lines = world.pgpass.read_text().splitlines()
    more = [line.replace(f":{make_url(world.url).port}:", f":{registry.port}:", 1) for line in lines]
    passwords = private.write(folder / "pgpass", "\n".join([*lines, *more, ""]))
    return world.runtime.model_copy(update={"registry_url_file": file, "pgpass": passwords})
