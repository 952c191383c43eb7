"""A model draws tables that share files, and maintains them: no table ever loses a row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from seeds import seed
from shared_files import SharedLake, deployment, plain_folder, rows

from lakeward.platform.runtime import Project, Runtime
from lakeward.tables.guard import pins

STEPS = 45


@pytest.fixture(scope="module")
def where(postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with deployment(postgres, tmp_path_factory.mktemp("shared")) as runtime:
        yield runtime


class Model:
    """Tables and the rows that each must have."""

    def __init__(self, lake: SharedLake, landing: Path, draw: random.Random) -> None:
        self.lake, self.landing, self.draw = lake, landing, draw
        self.rows: dict[str, list[int]] = {}
        self.next = 0
        self.spared = 0
        for _ in range(2):
            self.create()

    def one(self) -> str:
        return self.draw.choice(list(self.rows))

    def fresh(self) -> int:
        self.next += 1
        return self.next

    def create(self) -> None:
        space = self.draw.choice(["shared", "shared.deep", "other"])
        table = self.lake.table(space=space)
        self.rows[table] = []

    def append(self) -> None:
        table, number = self.one(), self.fresh()
        self.lake.load(table).append(rows(number))
        self.rows[table].append(number)

    def take_in(self) -> None:
        table, host = self.one(), self.one()
        files = self.lake.live(host)
        if files and table != host:
            file = self.draw.choice(files)
            self.lake.take_in(table, [file])
            self.rows[table] += pq.read_table(file)["id"].to_pylist()

    def take_in_a_folder(self) -> None:
        table, number = self.one(), self.fresh()
        self.lake.take_in(table, plain_folder(self.landing, number))
        self.rows[table].append(number)

    def rewrite(self) -> None:
        self.lake.rewrite(self.one())

    def empty(self) -> None:
        table = self.one()
        self.lake.load(table).delete()
        self.rows[table] = []

    def expire(self) -> None:
        self._count(self.lake.expire(self.one()))

    def orphans(self) -> None:
        self._count(self.lake.orphans(self.one()))

    def policy(self) -> None:
        self.lake.policy(self.draw.choice(["refuse", "keep", "delete"]))

    def _count(self, done: dict[str, Any]) -> None:
        assert [each["result"] for each in done["actions"] if each["result"] not in ("done", "skipped")] == [], done
        self.spared += sum(each["after"].get("spared_files", 0) for each in done["actions"])

    def step(self) -> str:
        weights = {
            self.create: 1, self.append: 4, self.take_in: 5, self.take_in_a_folder: 2, self.rewrite: 4, self.empty: 1,
            self.expire: 6, self.orphans: 3, self.policy: 1,
        }  # fmt: skip
        [chosen] = self.draw.choices(list(weights), list(weights.values()))
        chosen()
        return chosen.__name__

    def check(self) -> None:
        for table, ids in self.rows.items():
            assert self.lake.ids(table) == sorted(ids), f"{table} has other rows"


@pytest.mark.seeded
def test_no_table_ever_loses_a_row(where: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "STAGED_FLOOR", timedelta(0))  # no stream stages here
    lake = SharedLake(where, Project(tmp_path / "project"), outside="keep")
    model = Model(lake, tmp_path / "landing", random.Random(seed(7)))
    done = []
    for _ in range(STEPS):
        done.append(model.step())
        model.check()
    assert {"expire", "orphans", "take_in", "rewrite"} <= set(done) and model.spared > 0, "the draw proves something"
    lake.drop()
