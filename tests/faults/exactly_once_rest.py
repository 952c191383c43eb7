"""An Iceberg REST catalog that hangs, resets, loses the answers of commits, or refuses the login for a while.

The driver reaches the catalog, and nothing else, through a proxy, and has a login of its own. A login that is refused
and accepted again later is what an expired credential is to a stream: no query may fail, no driver be started again.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from exactly_once_network import Reader, tried
from exactly_once_round import Rounds
from exactly_once_streams import BY_NAME
from proxy import Mode, Proxy
from world import World

sys.path.append(str(Path(__file__).parents[1] / "support"))  # of the tests, which alone have it on their path
import object_store

KINDS = tuple(BY_NAME[name] for name in ("iceberg-append", "iceberg-upsert", "iceberg-complete", "iceberg-windows"))
LOST = {"answer of a catalog commit lost": rb"POST /v1/\S*/tables/"}
REFUSED = "the login is refused"
FAILED, WAITED = "stream failed, will restart", "batch continues"
EVENTS = (*LOST, "the catalog hangs", "the catalog resets", *(f"{REFUSED} ({number})" for number in range(1, 6)))


class Login:
    """The driver's login: refused while it does not pass."""

    lost = 0

    def __init__(self, weed: object_store.Weed) -> None:
        self._weed = weed
        self.login = weed.log_in(name="driver")

    def set(self, mode: Mode) -> None:
        """Write the right secret, or a wrong one."""
        self._weed.log_in(*(() if mode == "pass" else ("wrong",)), name="driver")


class RestCatalog:
    """Trials with a REST catalog: each an event on the way to it, beside landing batches."""

    def __init__(self, world: World) -> None:
        self._world = world

    def run(self, seed: int, events: Sequence[str] = EVENTS) -> list[dict[str, Any]]:
        """One catalog and one driver; a line for each event."""
        with object_store.running(self._world.folder / f"rest-{seed}", catalog=True) as weed:
            here = self._world.runtime
            lake = here.lake.model_copy(update={"store": weed.store, "properties": weed.rest, "login": weed.log_in()})
            whole = here.model_copy(update={"lake": lake})
            proxy, login = Proxy(weed.catalog), Login(weed)
            behind = {**weed.rest, "uri": f"http://127.0.0.1:{proxy.port}"}
            through = whole.model_copy(
                update={"lake": lake.model_copy(update={"properties": behind, "login": login.login})}
            )
            world = replace(self._world, runtime=whole, started=[])
            dice = random.Random(f"{seed}/rest")
            rounds = Rounds(world, KINDS, name=f"c{seed}")
            rounds.armed = False  # the hooks would stand where the jars of S3 do
            reader = Reader(world, rounds)
            try:
                rounds.produce(dice, dice.randint(20, 40))
                world.runtime = through
                rounds.launch()
                world.runtime = whole
                rounds.land()
                reader.start()
                driver = rounds.driver
                assert driver is not None
                lines = []
                for number, event in enumerate(dice.sample(events, len(events))):
                    way: Any = login if event.startswith(REFUSED) else proxy
                    before = len(driver.events(FAILED)), len(driver.events(WAITED))
                    line = tried("catalog", f"{seed}/{number}", event, way, LOST.get(event), rounds, reader, dice)
                    failed, waited = len(driver.events(FAILED)) - before[0], len(driver.events(WAITED)) - before[1]
                    line |= {"waited": waited, "failed": failed}
                    if failed and event.startswith(REFUSED):
                        line |= {"ok": False, "problems": [*line["problems"], f"{failed} queries were started again"]}
                    lines.append(line)
                return lines
            finally:
                world.runtime = whole
                login.set("pass")
                reader.stop()
                rounds.remove()
                proxy.close()
