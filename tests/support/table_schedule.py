"""Random schedules of what happens to a table, against the real planner and the real guards of expiry and orphans.

One `Schedule` is one table without an engine: a model of its snapshots, refs and files, of streams that stage and
publish, of readers, and of processes that die. Only what decides is real: `plan_expire`, `expirable`, the clamps, the
check of positions, `Listing` and `judge`. After every step `wrong` says what was taken that somebody needs; it knows
nothing of the guards. A planted fault takes one of them out: the schedules have to find it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.file_access import Entry, Folder
from lakeward.connectors.iceberg.source.position import Offset
from lakeward.spec.model.policy import Expire, Orphans
from lakeward.spec.model.types import Duration
from lakeward.tables.facts import WAP_ID, Profile, Ref, Snapshot, TableFacts, Thresholds
from lakeward.tables.guard import pins, readers
from lakeward.tables.guard.positions import off_main
from lakeward.tables.guard.readers import Reading
from lakeward.tables.observe.listing import Listing
from lakeward.tables.observe.references import Reference
from lakeward.tables.plan.expire import expirable, plan_expire
from lakeward.tables.plan.model import Action, History, Needs, SnapshotPin
from lakeward.tables.plan.orphans import judge, oldest_removable

START = datetime(2026, 3, 2, tzinfo=UTC)
HERE = "/lake/model/table"
STREAM = "writer"
EXPIRE = Expire(older_than=Duration("6h"), min_snapshots=5, every=Duration("30m"))
ORPHANS = Orphans(older_than=Duration("3d"), max_share=0.99)
SLOWEST = timedelta(hours=60)  # the longest between writing a file and committing it: below the age floor of orphans
PLANTED: Final = (
    "no readers", "no staged batches", "no publications", "no positions", "no refs",
    "metadata before listing", "no age", "main only", "no second look",
)  # fmt: skip


class Died(Exception):
    """A process ended in the middle of a step."""


@dataclass
class Schedule:
    """One table and what happens to it.

    Args:
        seed: of every choice.
        planted: the guard that is taken out; empty for none.
    """

    seed: int
    planted: str = ""
    here: str = HERE
    now: datetime = START
    files: dict[str, datetime] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    held: dict[int, frozenset[str]] = field(default_factory=dict)  # snapshot -> files it names
    refs: dict[str, Ref] = field(default_factory=dict)
    head: int | None = None
    pending: list[tuple[str, ...]] = field(default_factory=list)  # written and not committed yet
    position: Position | None = None
    staged: int | None = None
    reading: dict[str, int] = field(default_factory=dict)  # reader -> the snapshot it stands on
    checked: dict[str, int] = field(default_factory=dict)
    rolled_back: bool = False
    taken: int = 0
    expired: int = 0
    log: list[str] = field(default_factory=list)
    _last: int = 0
    _written: dict[str, datetime] = field(default_factory=dict)
    _added: dict[str, int] = field(default_factory=dict)
    _at: dict[int, datetime] = field(default_factory=dict)
    _offset: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def run(self, steps: int = 30) -> str:
        """What went wrong, with the steps up to it; empty if nothing did."""
        doing: list[tuple[Callable[[], None], int]] = [
            (self.commit, 8), (self.write, 3), (self.finish, 3), (self.give_up, 1), (self.wait, 8), (self.compact, 3),
            (self.stage, 3), (self.publish, 3), (self.branch, 1), (self.tag, 1), (self.drop_ref, 1), (self.read, 2),
            (self.roll_back, 1), (self.expire, 5), (self.orphans, 5),
        ]  # fmt: skip
        acts, weights = zip(*doing, strict=True)
        for act in self.chance.choices(acts, weights, k=steps):
            self.log.append(act.__name__)
            try:
                act()
            except Died:
                self.log.append("died")
            found = self.wrong()
            if found:
                return f"seed {self.seed}: {found} after {', '.join(self.log)}"
        return ""

    # What people, streams and engines do -----------------------------------------------------------------------------

    def wait(self) -> None:
        self.now += timedelta(hours=self.chance.choice([0.1, 1, 5, 12, 50, 200]))

    def commit(self) -> None:
        self.head = self._snapshot("append", self._files(self.head) | self._write())

    def write(self) -> None:
        self.pending.append(tuple(self._write()))

    def finish(self) -> None:
        """Commit what was written some time ago, by a writer that is slow."""
        if self.pending:
            wrote = self.pending.pop(0)
            if all(self.now - self._written[each] <= SLOWEST for each in wrote):
                self.head = self._snapshot("append", self._files(self.head) | set(wrote))

    def give_up(self) -> None:
        """The writer died: its files are orphans."""
        if self.pending:
            self.pending.pop()

    def compact(self) -> None:
        names = sorted(self._files(self.head))
        if len(names) > 2:
            rewritten = self.chance.sample(names, len(names) // 2)
            self.head = self._snapshot("replace", (self._files(self.head) - set(rewritten)) | self._write(1))

    def stage(self) -> None:
        if self.staged is None:
            seq = self.position.seq if self.position else 0
            wap = f"{STREAM}/{seq + 1}/n{self._last}"
            self.staged = self._snapshot("append", self._files(self.head) | self._write(), {WAP_ID: wap})

    def publish(self) -> None:
        if self.staged is None or self.rolled_back:
            return
        staged, self.staged = self.staged, None
        if staged not in self.snapshots:
            return  # it waited longer than the pin limit: the batch is staged again
        self.head = self._snapshot("append", self._files(self.head) | self.held[staged])
        seq = self.position.seq + 1 if self.position else 1
        self.position = Position(
            seq=seq, query_id="q", batch=seq - 1, end={"s": "{}"}, snapshot=self.head, snapshot_seq=self.head
        )

    def branch(self) -> None:
        self._name("branch")

    def tag(self) -> None:
        self._name("tag")

    def drop_ref(self) -> None:
        if self.refs:
            del self.refs[self.chance.choice(sorted(self.refs))]

    def read(self) -> None:
        """A stream reads on: from the oldest if it is new, else from where it stands."""
        name, chain = self.chance.choice(["r1", "r2"]), self._chain()
        if not chain or self.rolled_back:
            return
        if name not in self.reading:
            self.reading[name] = chain[-1]  # it has landed nothing: it begins at the oldest
            return
        place = chain.index(self.reading[name])
        at = self.reading[name] = chain[self.chance.randrange(place)] if place else chain[0]
        self._offset[name] = Offset(at, 1).text

    def roll_back(self) -> None:
        chain = self._chain()
        if len(chain) > 1 and self.position is not None and not self.reading and self.chance.random() < 0.3:
            self.head = chain[self.chance.randrange(1, len(chain))]
            self.rolled_back = self.position.snapshot not in self._chain() and self.position.snapshot in self.snapshots

    # What maintenance does -------------------------------------------------------------------------------------------

    def expire(self) -> None:
        facts = self.facts()
        checked = {} if self.planted == "no positions" else self.checked
        problems = [] if self.planted == "no positions" else off_main(facts, checked)
        needs = Needs(tuple(self._clamps(facts)), tuple(each.sentence for each in problems))
        planned = plan_expire(facts, EXPIRE, needs, History(), self.now)
        if not isinstance(planned, Action) or planned.older_than is None:
            return
        if self.planted == "no refs":
            facts = replace(facts, refs={"main": facts.refs["main"]})
        dropped = expirable(facts, planned.older_than, planned.retain_last, self.now)
        if self.position is not None and self.position.snapshot is not None:
            self.checked = {STREAM: self.position.snapshot}
        left: set[str] = set().union(*(names for each, names in self.held.items() if each not in dropped))
        files = sorted(set().union(*(self.held[each] for each in dropped)) - left)
        for each in dropped:  # the commit; whoever dies after it leaves the files behind
            del self.snapshots[each], self.held[each]
        self._expired(dropped)
        self.expired += len(dropped)
        for each in files:
            self._may_die()
            self._remove(each)

    def orphans(self) -> None:
        listing = Listing(self.here)
        early = list(self._references())
        known = set(self.snapshots)
        for folder in self._folders():
            listing.add(folder)
        self._meanwhile()
        named = early if self.planted == "metadata before listing" else self._references()
        listing.refer(named, set(self.snapshots) - known)
        policy = ORPHANS
        before = self.now if self.planted == "no age" else oldest_removable(policy, 0, self.now)
        if not isinstance(judge(listing.survey(before), policy), Action):
            listing.close()
            return
        after = ""
        while listing.orphans(before, 1, after):
            if self.planted != "metadata before listing":  # what this one is to be found by happened before
                self._meanwhile()
                if self.planted != "no second look":
                    listing.refer(self._references())
            for path, _ in listing.orphans(before, 1, after):
                self._may_die()
                self._remove(path)
                self.taken += 1
                after = path
        listing.close()

    # The model -------------------------------------------------------------------------------------------------------

    def facts(self) -> TableFacts:
        """The table as the observer would see it."""
        main = {"main": Ref("branch", self.head)} if self.head is not None else {}
        properties = {key(STREAM): self.position.to_json()} if self.position else {}
        return TableFacts(
            table="model.table", format="iceberg", uuid="u", location=HERE, metadata_location=f"{self._last}.json",
            format_version=2, snapshot_id=self.head, sequence=self.head or 0, properties=properties,
            refs=main | self.refs, snapshots=tuple(self.snapshots.values()), metadata_files=1,
            streams=tuple([STREAM] if self.position else ()), profile=Profile(self.head, Thresholds(100, 75, 12)),
            catalog="lake",
        )  # fmt: skip

    def wrong(self) -> str:
        """What somebody needs and what is gone; empty for nothing. It knows no guard."""
        for snapshot, names in self.held.items():
            if not names <= self.files.keys():
                return f"snapshot {snapshot} names a file that is gone"
        for wrote in self.pending:
            if any(each not in self.files and self.now - self._written[each] <= SLOWEST for each in wrote):
                return "a file that is about to be committed is gone"
        for name, ref in self.refs.items():
            if ref.snapshot_id not in self.snapshots:
                return f"{ref.kind} {name} lost its snapshot"
        chain = self._chain()
        for name, at in self.reading.items():
            if at not in chain:
                return f"reader {name} stands on snapshot {at}, which is gone"
        held = self.position
        for what, snapshot in (("staged", self.staged), ("newest published", held.snapshot if held else None)):
            if snapshot is not None and snapshot not in self.snapshots and self._age(snapshot) <= pins.PIN_LIMIT:
                return f"{what} snapshot {snapshot} is gone"
        if self.rolled_back and held is not None and held.snapshot not in self.snapshots:
            return f"the proof that snapshot {held.snapshot} was rolled back is gone"
        return ""

    def _remove(self, path: str) -> None:
        self.files.pop(path, None)

    def _expired(self, dropped: set[int]) -> None:
        """Snapshots were taken out of the metadata."""

    def _folders(self) -> Iterator[Folder]:
        for path, at in self.files.items():
            yield Folder("data", (), (Entry(path.removeprefix("data/"), 100, at),))

    def _age(self, snapshot: int) -> timedelta:
        return self.now - self._at[snapshot]

    def _write(self, most: int = 3) -> set[str]:
        made = {f"data/{self.seed}-{len(self._written) + n}" for n in range(self.chance.randint(1, most))}
        for each in made:
            self.files[each] = self._written[each] = self.now
        return made

    def _files(self, snapshot: int | None) -> frozenset[str]:
        return self.held.get(snapshot, frozenset()) if snapshot is not None else frozenset()

    def _snapshot(self, operation: str, names: frozenset[str] | set[str], summary: dict[str, str] | None = None) -> int:
        self._last += 1
        self.now += timedelta(milliseconds=1)
        made = Snapshot(self._last, self.head, self._last, self.now, operation, summary or {})
        self.snapshots[made.id], self.held[made.id], self._at[made.id] = made, frozenset(names), self.now
        for each in names:
            self._added.setdefault(each, made.id)
        return made.id

    def _chain(self) -> list[int]:
        found, at = [], self.snapshots.get(self.head or 0)
        while at is not None:
            found.append(at.id)
            at = self.snapshots.get(at.parent or 0)
        return found

    def _name(self, kind: str) -> None:
        chain = self._chain()
        if chain:
            self.refs[f"{kind}{self._last}"] = Ref(kind, self.chance.choice(chain))

    def _clamps(self, facts: TableFacts) -> Iterator[SnapshotPin]:
        yield pins.batches(0, self.now)
        if self.planted != "no staged batches":
            yield from pins.staged(facts, self.now)
        if self.planted != "no publications":
            yield from pins.publications(facts, {STREAM}, self.now)
        if self.planted != "no readers":
            at = {name: self._offset.get(name) for name in self.reading}
            yield from readers.pins(facts, [Reading(name, "s", each) for name, each in at.items()])

    def _references(self) -> Iterator[Reference]:
        for snapshot, names in list(self.held.items()):
            if self.planted == "main only" and snapshot != self.head:
                continue
            yield from (Reference(f"{self.here}/{each}", self._added[each]) for each in names)

    def _meanwhile(self) -> None:
        """What others commit while maintenance works; also a file that nothing named until now."""
        if self.chance.random() < 0.3:
            self.chance.choice([self.commit, self.finish, self._adopt])()

    def _adopt(self) -> None:
        waiting = {each for wrote in self.pending for each in wrote}
        free = sorted(self.files.keys() - set().union(*self.held.values()) - waiting)
        if free:
            self.head = self._snapshot("append", self._files(self.head) | {self.chance.choice(free)})

    def _may_die(self) -> None:
        if self.chance.random() < 0.1:
            raise Died
