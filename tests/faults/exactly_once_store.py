"""An object store that hangs, resets, or whose answers get lost, under tables, state and checkpoints.

The driver reaches its store, and nothing else, through a proxy. A write whose answer is lost was carried out: its
client sends it again, and what stands there then must still be one batch.
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
from proxy import Proxy
from world import World

sys.path.append(str(Path(__file__).parents[1] / "support"))  # of the tests, which alone have it on their path
import object_store

WAREHOUSE, CHECKPOINTS = "s3://lake/warehouse", "s3a://lake/checkpoints"
KINDS = tuple(
    BY_NAME[name]
    for name in ("iceberg-append", "iceberg-upsert", "iceberg-complete", "iceberg-windows", "postgres-append")
)
"""What can stand on a store. Of `postgres-append` that is the checkpoint, of `iceberg-windows` the state too."""
LOST = {
    "answer of a data file lost": rb"PUT /lake/warehouse/\S+\.parquet",
    "answer of a manifest lost": rb"PUT /lake/warehouse/\S+\.avro",
    "answer of a metadata file lost": rb"PUT /lake/warehouse/\S+\.metadata\.json",
    "answer of the offset log lost": rb"PUT /lake/checkpoints/\S+/offsets/\d+",
    "answer of the commit log lost": rb"PUT /lake/checkpoints/\S+/commits/\d+",
    "answer of a file of state lost": rb"PUT /lake/checkpoints/\S+/state/",
}
EVENTS = (*LOST, "the store hangs", "the store resets")


class Store:
    """Trials with a store behind a proxy: each an event on the way to it, beside landing batches."""

    def __init__(self, world: World) -> None:
        self._world = world

    def run(self, seed: int, events: Sequence[str] = EVENTS) -> list[dict[str, Any]]:
        """One store and one driver; a line for each event."""
        with object_store.running(self._world.folder / f"store-{seed}") as weed:
            here = self._world.runtime
            lake = here.lake.model_copy(update={"warehouse": WAREHOUSE, "store": weed.store})
            whole = here.model_copy(update={"lake": lake, "checkpoints": CHECKPOINTS})
            proxy = Proxy(weed.port)
            behind = weed.connect("behind", endpoint_url=f"http://127.0.0.1:{proxy.port}")
            through = whole.model_copy(update={"lake": lake.model_copy(update={"store": behind})})
            world = replace(self._world, runtime=whole, started=[])
            dice = random.Random(f"{seed}/store")
            rounds = Rounds(world, KINDS, name=f"s{seed}")
            rounds.armed = False  # no stream waits at a step; and the hooks would stand where the jars of S3 do
            reader = Reader(world, rounds)
            try:
                rounds.produce(dice, dice.randint(20, 40))
                world.runtime = through
                rounds.launch()
                world.runtime = whole
                rounds.land()
                reader.start()
                return [
                    tried("store", f"{seed}/{number}", event, proxy, LOST.get(event), rounds, reader, dice)
                    for number, event in enumerate(dice.sample(events, len(events)))
                ]
            finally:
                world.runtime = whole
                reader.stop()
                rounds.remove()
                proxy.close()
