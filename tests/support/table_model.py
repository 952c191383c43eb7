"""A lake without an engine: writers that commit, the real planner, and a model of what Iceberg does with its plans.

One `TableModel` is one table. Time runs in looks: between two looks its writer commits; at each look the planner is
given facts made of the model's files and the ledger's rows, and what it plans is applied and recorded. Nothing here
decides anything: replacing `planner` by one without a guard shows what the guard is for.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeward.spec.model.policy import Compact, Policy
from lakeward.tables.facts import File, Profile, Ref, Snapshot, TableFacts, Thresholds, summarise
from lakeward.tables.needs import history_from
from lakeward.tables.plan import Action, Needs, Plan, plan
from lakeward.tables.plan.expire import expirable

START = datetime(2026, 3, 2, tzinfo=UTC)
MB = 1 << 20
LOOK = timedelta(minutes=5)
DAY = timedelta(days=1)

Planner = Callable[..., Plan]
Commits = Callable[[datetime, random.Random], list[tuple[str, int]]]  # -> (partition, size in bytes) of each file


@dataclass(frozen=True)
class Shape:
    """How a table is written.

    Attributes:
        every: time between commits.
        files: what one commit adds.
        contested: share of rewrites of a partition in use that lose against its writer (upserts).
    """

    name: str
    every: timedelta
    files: Commits
    contested: float = 0.0


def hourly(at: datetime) -> str:
    return f"hour={at:%Y-%m-%d-%H}"


def daily(at: datetime) -> str:
    return f"day={at:%Y-%m-%d}"


def _late(at: datetime, chance: random.Random) -> list[tuple[str, int]]:
    back = timedelta(hours=chance.randint(1, 60)) if chance.random() < 0.05 else timedelta()
    return [(hourly(at - back), MB)]


SHAPES = (
    Shape("every second, one partition", timedelta(seconds=1), lambda at, _: [("", 100_000)]),
    Shape("every 10 s, a partition an hour", timedelta(seconds=10), lambda at, _: [(hourly(at), MB)]),
    Shape("every 10 s, a partition a day", timedelta(seconds=10), lambda at, _: [(daily(at), MB)]),
    Shape("every 10 s, four files", timedelta(seconds=10), lambda at, _: [(daily(at), 100_000)] * 4),
    Shape("every 10 s, some of it late", timedelta(seconds=10), _late),
    Shape("every minute, upserts", timedelta(minutes=1), lambda at, _: [(daily(at), 2 * MB)] * 4, contested=0.5),
    Shape("every 10 min, a trickle", timedelta(minutes=10), lambda at, _: [(daily(at), 10_000)]),
)


@dataclass
class TableModel:
    """One table.

    Attributes:
        shape: its writer.
        planner: what decides; the product's own unless a test plants another.
        yields: size of what a rewrite writes, as a share of what it took (a better compression).
        pieces: how many files come where one was promised (an engine that does not reach the target).
        retained: snapshots of main that are kept whatever is planned (cheap); None: expiry alone takes them.
        keep_plans: whether `plans` holds every plan with its moment, needs and facts.
        ledger: rows as the registry keeps them, newest first.
        ingested, rewritten: bytes by partition.
        chance: the model's dice.
    """

    shape: Shape
    planner: Planner = plan
    policy: Policy = field(default_factory=Policy)
    needs: Callable[[TableFacts, datetime], Needs] = lambda facts, now: Needs()
    yields: float = 0.9
    pieces: int = 1
    seed: int = 1
    now: datetime = START
    ledger: list[dict[str, Any]] = field(default_factory=list)
    plans: list[tuple[datetime, Needs, Plan, TableFacts]] = field(default_factory=list)
    keep_plans: bool = False
    retained: int | None = 60
    ingested: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    rewritten: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self._files: dict[str, list[File]] = defaultdict(list)
        self._snapshots: dict[int, Snapshot] = {}
        self._last = 0
        self._manifests = 0
        self._tags: dict[str, Ref] = {}
        self._next = self.now
        self.chance = random.Random(self.seed)

    def run(self, for_: timedelta, *, writing: bool = True) -> int:
        """Let time pass; how many compactions were done."""
        end, before = self.now + for_, self._compactions()
        while self.now < end:
            until = min(self.now + LOOK, end)
            if writing:
                self._write(until)
            self.now = until
            self.look()
        return self._compactions() - before

    def look(self) -> Plan:
        """One observation, and the maintenance it makes due."""
        facts = self.facts()
        needs = self.needs(facts, self.now)
        made = self.planner(facts, self.policy, needs, history_from(self.ledger[:300]), self.now)
        if self.keep_plans:
            self.plans.append((self.now, needs, made, facts))
        for action in made.actions:
            if action.action == "compact":
                self._compact(action)
            elif action.action == "manifests":
                self._rewrite_manifests(action)
            elif action.tag is not None:
                max_age_ms = action.tag.max_age // timedelta(milliseconds=1)
                self._tags[action.tag.name] = Ref("tag", action.tag.snapshot_id, expires_after_ms=max_age_ms)
            else:
                self._expire(action)
        return made

    def facts(self) -> TableFacts:
        """The table now."""
        sizes = self.thresholds
        parts = [summarise(key, f"p = '{key}'" if key else "", held, sizes) for key, held in self._files.items()]
        parts.sort(key=lambda each: (-each.small, each.key))
        profile = Profile(
            self._last or None,
            sizes,
            files=sum(each.files for each in parts),
            bytes=sum(each.bytes for each in parts),
            records=sum(each.records for each in parts),
            small_files=sum(each.small for each in parts),
            data_manifests=self._manifests,
            manifests=self._manifests,
            partitions=tuple(parts),
        )
        return TableFacts(
            table="model.table", format="iceberg", uuid="u", location="/lake/model/table",
            metadata_location=f"{self._last}.json", format_version=2, snapshot_id=self._last or None,
            sequence=self._last, properties={},
            refs=self._tags | ({"main": Ref("branch", self._last)} if self._last else {}),
            snapshots=tuple(self._snapshots.values()), metadata_files=1, streams=(), profile=profile, catalog="lake",
        )  # fmt: skip

    @property
    def thresholds(self) -> Thresholds:
        policy: Compact = self.policy.compact
        target = policy.target_for(sum(f.size for held in self._files.values() for f in held))
        return Thresholds(target, int(target * policy.small_file_ratio), int(target * policy.fragment_ratio))

    def amplification(self, least: int = 0) -> float:
        """Bytes rewritten for each byte written, over partitions that were given at least so many bytes."""
        large = [key for key, size in self.ingested.items() if size >= least]
        written = sum(self.ingested[key] for key in large)
        return sum(self.rewritten[key] for key in large) / written if written else 0.0

    def _compactions(self) -> int:
        return sum(row["action"] == "compact" and row["after"]["files_taken"] > 0 for row in self.ledger)

    def _write(self, until: datetime) -> None:
        while self._next <= until:
            for key, size in self.shape.files(self._next, self.chance):
                self._files[key].append(File(size, 100, self._next))
                self.ingested[key] += size
            self._commit("append", self._next)
            self._manifests += 1
            self._next += self.shape.every

    def _commit(self, operation: str, at: datetime) -> None:
        parent, self._last = self._last or None, self._last + 1
        self._snapshots[self._last] = Snapshot(self._last, parent, self._last, at, operation)
        if self.retained is not None and len(self._snapshots) > self.retained:
            del self._snapshots[next(iter(self._snapshots))]

    def _compact(self, action: Action) -> None:
        taken = given = size = 0
        before = self._figures() | {
            "promised_files": action.files,
            "promised_bytes": action.size_bytes,
            "partitions": [each for each in action.partitions if each],
            "final": [key for each in action.rewrites if each.mode == "final" for key in each.partitions],
        }
        lost = any(self._contested(key) for key in action.partitions)
        promised = sum(each.takes - each.gives for each in action.rewrites)
        for rewrite in action.rewrites if not lost else ():
            for key in rewrite.partitions if rewrite.where else list(self._files):
                chosen = [each for each in self._files[key] if each.size < rewrite.below]
                if len(chosen) < 2:
                    continue
                made = self._merged(chosen, rewrite.target)
                self._files[key] = [each for each in self._files[key] if each.size >= rewrite.below] + made
                taken, given = taken + len(chosen), given + len(made)
                size += sum(each.size for each in chosen)
                self.rewritten[key] += sum(each.size for each in chosen)
        if taken:
            self._commit("replace", self.now)
            self._manifests += 1
        ok = not lost and taken - given >= promised * 0.8
        self._record(action, before, ok=ok, size=size, files_taken=taken, files_given=given)

    def _contested(self, key: str) -> bool:
        newest = max((f.written_at for f in self._files[key] if not f.rewritten and f.written_at), default=None)
        in_use = newest is not None and self.now - newest < timedelta(minutes=30)
        return in_use and self.chance.random() < self.shape.contested

    def _merged(self, chosen: Sequence[File], target: int) -> list[File]:
        total = sum(each.size for each in chosen)
        count = min(-(-total // target) * self.pieces, len(chosen))
        records = sum(each.records for each in chosen)
        size = max(int(total * self.yields) // count, 1)
        made = [File(size, records // count, self.now, rewritten=True) for _ in range(count)]
        return [replace(made[0], records=made[0].records + records % count), *made[1:]]

    def _rewrite_manifests(self, action: Action) -> None:
        before = self._figures()
        self._manifests = max(1, sum(len(held) for held in self._files.values()) // 1000)
        self._commit("replace", self.now)
        self._record(action, before, ok=True)

    def _expire(self, action: Action) -> None:
        before = self._figures()
        assert action.older_than is not None
        facts = self.facts()
        expired = expirable(facts, action.older_than, action.retain_last, self.now)
        for name in facts.outlived(self.now):
            del self._tags[name]
        for each in expired:
            del self._snapshots[each]
        self._record(action, before, ok=bool(expired), snapshots_expired=len(expired))

    def _figures(self) -> dict[str, Any]:
        files = [each for held in self._files.values() for each in held]
        return {
            "files": len(files),
            "size_bytes": sum(each.size for each in files),
            "records": sum(each.records for each in files),
            "manifests": self._manifests,
            "snapshots": len(self._snapshots),
        }

    def _record(self, action: Action, before: dict[str, Any], *, ok: bool, size: int = 0, **figures: int) -> None:
        after = self._figures()
        assert after["records"] == before["records"], "the model lost rows"
        seconds = 2 + size / (20 * MB)  # what the machine really does; the planner has to learn it
        why = action.why if ok or figures.get("files_taken") else "ValidationException: found new delete"
        row = {
            "action": action.action, "result": "done" if ok else "failed", "verified": ok, "why": why,
            "started_at": self.now, "finished_at": self.now, "duration_s": seconds, "cpu_s": seconds,
            "before": before, "after": after | figures, "expected_s": action.expected_s,
        }  # fmt: skip
        self.ledger.insert(0, row)
