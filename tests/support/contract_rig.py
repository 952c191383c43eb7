"""Sinks that the contract of the commit protocol runs against, without Spark: a table in memory, and a real folder.

Both are `TableWriter`s; the frame that lands a batch is the product's own. The table in memory is honest: staged rows
are seen by nobody, and rows and position change together under one compare-and-set, or not at all.
"""

from __future__ import annotations

import json
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from lakeward.connectors.commit_protocol.attempt import Build, RetryCommit
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.commit_protocol.writer import TableWriter
from lakeward.connectors.folder import store
from lakeward.connectors.folder.writer import FolderState, FolderWriter
from lakeward.telemetry import failpoints

ROWS = 4
"""Records of a batch, unless a test plans it otherwise."""
STREAM = "flights"


class Died(RuntimeError):
    """Raised where the process is killed: nothing of the writer is used afterwards."""


def die() -> None:
    raise Died


@dataclass(frozen=True)
class Rows:
    """The rows of a batch, where Spark has a DataFrame."""

    values: tuple[int, ...]
    sparkSession: None = None  # noqa: N815  # the name that the frame asks a DataFrame for


@dataclass
class MemoryTable:
    """A table: committed rows, the position that counts them, and rows that were staged and are seen by nobody."""

    rows: list[int] = field(default_factory=list)
    raw: str | None = None
    staged: dict[str, tuple[int, ...]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def commit(self, expected: str | None, attempt: str, raw: str) -> None:
        """Rows and position at once, if the position still is what was read.

        Raises:
            Redo: it is not, or the rows are not staged any more.
        """
        with self.lock:
            if self.raw != expected:
                raise RetryCommit("the position moved")
            if attempt not in self.staged:
                raise RetryCommit("the staged rows are gone")
            self.rows += self.staged.pop(attempt)
            self.raw = raw


@dataclass(frozen=True)
class MemoryStaged:
    attempt: str
    rows: int


@dataclass
class MemoryWriter(TableWriter[FolderState, MemoryStaged]):
    """Lands one stream in one `MemoryTable`."""

    store: MemoryTable = field(kw_only=True)

    @property
    def mode(self) -> str:
        return "upsert"  # not what a position says by itself

    @property
    def history(self) -> str:
        return "in the test"

    def load(self, session: Any) -> FolderState:
        raw = self.store.raw
        return FolderState(raw, None if raw is None else Position.model_validate_json(raw))

    def check(self, state: FolderState) -> BlockReason | None:
        return None

    def stage(self, rows: Any, state: FolderState, attempt: str) -> MemoryStaged:
        self.store.staged[attempt] = rows.values
        return MemoryStaged(attempt, len(rows.values))

    def publish(self, state: FolderState, staged: MemoryStaged, batch: RunningBatch, build: Build) -> Position:
        moved = build(None, 0)
        failpoints.hit("before-publish")
        self.store.commit(state.raw, staged.attempt, moved.to_json())
        failpoints.hit("after-publish")
        return moved


@dataclass
class PlainFolderWriter(FolderWriter):
    """A folder's writer that writes its files without Spark. All else is the product's."""

    def write(self, rows: Any, folder: Path) -> int:
        if rows.values:
            (folder / "part-0.json").write_text("".join(f"{value}\n" for value in rows.values))
        return len(rows.values)


@dataclass
class Traced:
    """Writes down what the frame asks of a writer, and fails where a test says so.

    Attributes:
        trace: the steps in order: `load stage execute publish release`, and what tests add.
        fails: step -> errors, of which each call raises the first that is left.
        halt: what the table's own check says.
    """

    trace: list[str] = field(default_factory=list, init=False)
    fails: dict[str, list[Exception]] = field(default_factory=dict, init=False)
    halt: BlockReason | None = field(default=None, init=False)

    def _step(self, name: str) -> None:
        self.trace.append(name)
        if self.fails.get(name):
            raise self.fails[name].pop(0)

    def load(self, session: Any) -> Any:
        self._step("load")
        return super().load(session)  # type: ignore[misc]  # of the writer it is mixed into

    def check(self, state: Any) -> BlockReason | None:
        return self.halt or super().check(state)  # type: ignore[misc]  # of the writer it is mixed into

    def execute(self, rows: Any) -> None:
        self._step("execute")  # in place of a job of Spark

    def stage(self, rows: Any, state: Any, attempt: str) -> Any:
        self._step("stage")
        return super().stage(rows, state, attempt)  # type: ignore[misc]  # of the writer it is mixed into

    def publish(self, state: Any, staged: Any, batch: RunningBatch, build: Build) -> Position:
        self._step("publish")
        return super().publish(state, staged, batch, build)  # type: ignore[misc]  # of the writer it is mixed into

    def release(self) -> None:
        self._step("release")
        super().release()  # type: ignore[misc]  # of the writer it is mixed into


@dataclass
class TracedMemory(Traced, MemoryWriter):
    pass


@dataclass
class TracedFolder(Traced, PlainFolderWriter):
    pass


Bounds = Mapping[int, tuple[int, int]]


class Rig(ABC):
    """One sink and its stream, whose batches are planned by the tests."""

    def writer(self, query: str = "q", bounds: Bounds | None = None, **more: Any) -> Any:
        """A fresh one, as every start of a query has.

        Args:
            bounds: batch -> its first offset and the one after its last; default: `ROWS` records a batch.
        """

        def planned(batch: int) -> RunningBatch:
            start, end = (bounds or {}).get(batch, (ROWS * batch, ROWS * (batch + 1)))
            return RunningBatch(query, batch, {"source": str(start)}, {"source": str(end)})

        given = {"topic_ids": lambda: {"t": "id-1"}, "stateful": False, "planned": planned, **more}
        return self._make(session=None, stream=STREAM, query_name="none", generation=3, **given)

    def land(self, batch: int, writer: Any = None, values: tuple[int, ...] | None = None, **how: Any) -> BatchResult:
        """Land a batch, by default by a fresh writer and with a row for each record."""
        writer = writer or self.writer()
        found = writer.planned(batch)
        all_of_it = range(int(found.start["source"]), int(found.end["source"]))
        return writer.land(Rows(tuple(all_of_it) if values is None else values), batch, **how)

    @property
    def position(self) -> Position:
        """As it is in the sink."""
        assert self.raw is not None
        return Position.model_validate_json(self.raw)

    @property
    @abstractmethod
    def raw(self) -> str | None:
        """The position as text; None without one."""

    @abstractmethod
    def values(self) -> list[int]:
        """What a reader of the sink sees, sorted."""

    @abstractmethod
    def move(self, **changes: Any) -> None:
        """Somebody else moves the position to the next seq, without rows: a reset or an import."""

    @abstractmethod
    def create_again(self) -> None:
        """Somebody drops the sink and creates an empty one of the same name."""

    @abstractmethod
    def lose_staged(self) -> None:
        """Maintenance takes what nobody has published."""

    @abstractmethod
    def _make(self, **given: Any) -> Any: ...

    def _moved(self, changes: Mapping[str, Any]) -> Position:
        new = {"seq": self.position.seq + 1, "query_id": "", "batch": -1, "attempt": "reset/1/tests", **changes}
        return self.position.model_copy(update=new)


@dataclass
class MemoryRig(Rig):
    table: MemoryTable = field(default_factory=MemoryTable)

    def _make(self, **given: Any) -> TracedMemory:
        return TracedMemory(table="memory", store=self.table, **given)

    @property
    def raw(self) -> str | None:
        return self.table.raw

    def values(self) -> list[int]:
        return sorted(self.table.rows)

    def move(self, **changes: Any) -> None:
        self.table.raw = self._moved(changes).to_json()

    def create_again(self) -> None:
        self.table.rows.clear()
        self.table.raw = None

    def lose_staged(self) -> None:
        self.table.staged.clear()


@dataclass
class FolderRig(Rig):
    path: Path

    def _make(self, **given: Any) -> TracedFolder:
        return TracedFolder(table=str(self.path), path=self.path, format="json", **given)

    @property
    def raw(self) -> str | None:
        found = store.newest(self.path, STREAM)
        return None if found is None else found.to_json()

    def values(self) -> list[int]:
        files = self.path.glob("seq=*/*.json")
        return sorted(json.loads(line) for file in files for line in file.read_text().splitlines())

    def move(self, **changes: Any) -> None:
        staged = self.path / store.STAGING / uuid4().hex
        staged.mkdir(parents=True)
        store.publish(staged, self.path, STREAM, self._moved(changes))

    def create_again(self) -> None:
        for folder in self.path.glob("seq=*"):
            shutil.rmtree(folder)

    def lose_staged(self) -> None:
        for folder in (self.path / store.STAGING).iterdir():
            store.discard(folder)


def at(held: ExitStack, step: str, act: Callable[[], None], times: int = 1) -> list[int]:
    """Do something at a step, the first few times that it is passed; says how often it was."""
    done: list[int] = []

    def hook() -> None:
        if len(done) < times:
            done.append(1)
            act()

    held.enter_context(failpoints.on(step, hook))
    return done
