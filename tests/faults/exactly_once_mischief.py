"""What somebody does behind a stream's back: its checkpoint, its table, or both are not what they were.

One driver hosts a stream for each; between its kill and the next launch everything is done at once. A stream that must
block has to say so with the right reason and leave the table as it is, and one that may go on has to be right.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from exactly_once_evidence import Stream
from exactly_once_maintenance import Maintenance
from exactly_once_oracle import Row, judge
from exactly_once_round import Rounds
from exactly_once_streams import BY_NAME, Kind
from world import World, wait_for

from lakeward.spec.sql.statements import quote_table

LATE_S = 600.0


@dataclass(frozen=True)
class Mischief:
    """One way to go wrong.

    Attributes:
        name, kind: of the trial, and of the stream it is done to.
        reasons: those of a block; none: the stream must go on.
        act: does it, while no driver runs.
        beside: does it while the driver runs, instead.
    """

    name: str
    kind: Kind
    reasons: tuple[str, ...] = ()
    act: Callable[[Acts, Stream], None] | None = None
    beside: Callable[[Acts, Stream], None] | None = None


class Acts:
    """What can be done to a stream."""

    def __init__(self, rounds: Rounds, maintenance: Maintenance) -> None:
        self.rounds, self._maintenance = rounds, maintenance

    def older_copy(self, stream: Stream) -> None:
        """Its checkpoint as it was some batches ago, and another cap: batches would begin and end elsewhere."""
        place = self.rounds.inquest.folder_of(stream)
        shutil.rmtree(place)
        shutil.copytree(self.copy_of(stream), place)
        [(kind, source)] = stream.document["source"].items()
        cap = {"max_files_per_trigger": 2} if kind == "files" else {"max_offsets_per_trigger": 7}
        self.rounds.world.deploy(stream.document | {"source": {kind: source | cap}}, generation=2)

    def second_checkpoint(self, stream: Stream) -> None:
        """None at all, as if the stream was deployed anew somewhere else."""
        shutil.rmtree(self.rounds.inquest.folder_of(stream))

    def staging_off(self, stream: Stream) -> None:
        """Rows would be visible at once."""
        table = quote_table(stream.table, "lake")
        self._maintenance.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.wap.enabled'='false')")

    def roll_back(self, stream: Stream) -> None:
        """To the table's first snapshot."""
        snapshots = f"SELECT snapshot_id FROM lake.{stream.table}.history ORDER BY made_current_at LIMIT 1"
        [[first]] = self._maintenance.sql(snapshots)
        self._maintenance.sql(f"CALL lake.system.rollback_to_snapshot('{stream.table}', {first})")

    def replace(self, stream: Stream) -> None:
        """The same rows in a table made anew."""
        table = quote_table(stream.table, "lake")
        self._maintenance.sql(f"CREATE OR REPLACE TABLE {table} USING iceberg AS SELECT * FROM {table} LIMIT 5")

    def shrink(self, stream: Stream) -> None:
        """Compaction and the tightest expiry."""
        self._maintenance.shrink(stream.kind, stream.table)

    def upsert(self, stream: Stream) -> None:
        """Insert every key that the table has not got yet, as another writer: between staging and publication."""
        keys = sorted({each.value["k"] for each in self.rounds.records})
        rows = ", ".join(f"('{key}', -1L, -1L)" for key in keys)
        self._maintenance.sql(
            f"MERGE INTO {quote_table(stream.table, 'lake')} t USING (SELECT * FROM VALUES {rows} AS s(k, n, v)) s "
            "ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, n, v) VALUES (s.k, s.n, s.v)"
        )

    def copy_of(self, stream: Stream) -> Any:
        """Where the older copy is kept."""
        return self.rounds.folder / "copies" / stream.name


def _on(name: str, kind: str) -> Kind:
    return replace(BY_NAME[kind], name=f"{name}-{kind}")


OLDER = ("older-checkpoint", "diverged", "gap", "overlap", "discontinuous")
FROM_FILES = replace(BY_NAME["iceberg-append"], name="older-files-to-iceberg", proof="numbers", files=True)
FOREIGN = Mischief("foreign-upsert", _on("foreign", "iceberg-upsert"), beside=Acts.upsert)
ALL = (
    *(
        Mischief("older copy, other cap", _on("older", kind), OLDER, Acts.older_copy)
        for kind in ("iceberg-append", "iceberg-upsert", "delta-append", "postgres-append", "files-append")
    ),
    Mischief("older copy, other cap", FROM_FILES, OLDER, Acts.older_copy),
    *(
        Mischief("second checkpoint", _on("second", kind), ("checkpoint-missing",), Acts.second_checkpoint)
        for kind in ("iceberg-append", "delta-append", "postgres-append", "files-append")
    ),
    Mischief("staging switched off", _on("wap", "iceberg-append"), ("wap-off",), Acts.staging_off),
    Mischief("rolled back", _on("back", "iceberg-append"), ("rolled-back",), Acts.roll_back),
    Mischief("replaced", _on("anew", "iceberg-append"), ("table-replaced", "wap-off"), Acts.replace),
    Mischief("compacted, expired while it runs", _on("shrunk", "iceberg-append"), beside=Acts.shrink),
    Mischief("compacted, expired while it runs", _on("shrunk", "iceberg-upsert"), beside=Acts.shrink),
    Mischief("compacted, expired while it runs", _on("shrunk", "delta-upsert"), beside=Acts.shrink),
    FOREIGN,
)  # fmt: skip


class Mischiefs:
    """Trials of all of them at once, in one world."""

    def __init__(self, world: World, maintenance: Maintenance) -> None:
        self._world, self._maintenance = world, maintenance

    def run(self, seed: int, chosen: Sequence[Mischief] = ALL) -> list[dict[str, Any]]:
        """A line for each."""
        dice = random.Random(f"{seed}/mischief")
        rounds = Rounds(self._world, [each.kind for each in chosen], name=f"m{seed}")
        acts = Acts(rounds, self._maintenance)
        streams = {each.kind.name: each for each in rounds.streams}
        pairs = [(each, streams[each.kind.name]) for each in chosen]
        try:
            rounds.produce(dice, dice.randint(30, 60))
            rounds.launch()
            rounds.land()
            for landed in rounds.streams:
                shutil.copytree(rounds.inquest.folder_of(landed), acts.copy_of(landed))
            self._while_it_runs(rounds, acts, dice, pairs)
            for _ in range(2):
                rounds.produce(dice, dice.randint(20, 50))
                rounds.land()
            rounds.kill()
            for each, stream in pairs:
                if each.act is not None:
                    each.act(acts, stream)
            before = {stream.name: rounds.rows(stream) for _, stream in pairs}
            rounds.produce(dice, dice.randint(20, 50))
            rounds.launch()
            return [self._line(seed, rounds, each, stream, before[stream.name]) for each, stream in pairs]
        finally:
            rounds.remove()

    def _while_it_runs(
        self, rounds: Rounds, acts: Acts, dice: random.Random, pairs: Sequence[tuple[Mischief, Stream]]
    ) -> None:
        """The foreign upsert comes between staging and publication; the others beside landing batches."""
        waiting = [stream for each, stream in pairs if each is FOREIGN]
        armed = rounds.arm({each.kind.name: "after-stage" for each in waiting}, 0)
        rounds.produce(dice, dice.randint(30, 60))
        reached = rounds.arrived(armed)
        for each, stream in pairs:
            if each.beside is not None and (each is not FOREIGN or stream.name in reached):
                each.beside(acts, stream)
        rounds.arms.disarm()
        rounds.land()

    @staticmethod
    def _line(seed: int, rounds: Rounds, each: Mischief, stream: Stream, before: list[Row]) -> dict[str, Any]:
        problems: list[str] = []
        world = rounds.world
        try:
            wait_for("an end", lambda: rounds.drained(stream) or world.stream(stream.name).blocked, LATE_S)
        except AssertionError as error:
            problems.append(str(error))
        blocked: Mapping[str, Any] = world.stream(stream.name).blocked or {}
        reason = blocked.get("reason")
        rows = rounds.rows(stream)
        if each.reasons:
            if reason not in each.reasons:
                problems.append(f"should block with one of {', '.join(each.reasons)}: {reason} {blocked.get('what')}")
            if len(rows) != len(before):
                problems.append(f"{len(before)} rows became {len(rows)}")
        else:
            if reason is not None:
                problems.append(f"blocked with {reason}: {blocked.get('what')}")
            problems += judge(stream.kind, rounds.records, rows).problems
        return {
            "seed": f"mischief {seed}/{stream.kind.name}", "ok": not problems, "kind": "mischief", "what": each.name,
            "stream": stream.kind.name, "blocked": reason, "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "records": len(rounds.records), "problems": problems,
        }  # fmt: skip
