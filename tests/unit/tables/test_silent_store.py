"""An object store that says nothing: every reader is told so in bounded time, and the same clients go on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import object_store
import pyarrow.parquet as pq
import pytest
from object_store import Weed
from proxy import Proxy
from pyarrow import fs
from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem
from shared_files import SharedLake, deployment, rows

from lakeward.connectors.aws import store
from lakeward.connectors.aws.account import ENDPOINT
from lakeward.connectors.file_access import FileAccess
from lakeward.operations.erase.erase import Erase
from lakeward.operations.erase.plan import Scope
from lakeward.operations.request import Approval, Outcome, Request
from lakeward.operations.runner import Runner
from lakeward.platform import ports
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import DependencyDown, expect
from lakeward.platform.failures import FailureClass, classify
from lakeward.platform.runtime import Lake, Project
from lakeward.quality.ranges import metadata
from lakeward.registry.engine import connect
from lakeward.tables import run
from lakeward.tables.erase import files, where
from lakeward.tables.guard import pins
from lakeward.telemetry import failpoints


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    with object_store.running(tmp_path_factory.mktemp("weed")) as made:
        yield made


@pytest.fixture
def proxy(weed: Weed) -> Iterator[tuple[Proxy, Any]]:
    """The way to a store, and the store's connection that goes this way."""
    made = Proxy(weed.port)
    yield made, weed.connect("behind", **{ENDPOINT: f"http://{ports.HOST}:{made.port}"})
    made.close()


@pytest.fixture
def lake(
    proxy: tuple[Proxy, Any], postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SharedLake]:
    """A lake whose catalog answers all the time, and whose clients of the store try each request once.

    For three seconds: a store that answers needs more than one on a machine whose cores are busy.
    """
    monkeypatch.setattr(store, "ANSWER_S", 3)
    monkeypatch.setattr(fs, "S3FileSystem", partial(S3FileSystem, retry_strategy=AwsStandardS3RetryStrategy(1)))
    monkeypatch.setattr(pins, "STAGED_FLOOR", timedelta(0))  # no stream stages here
    store._file_system.cache_clear()
    database = postgres.create_database()
    where = Lake(
        host=postgres.host, port=postgres.port, database=database, user=postgres.user,
        warehouse=f"s3://lake/{database}", store=proxy[1],
    )  # fmt: skip
    with deployment(postgres, tmp_path, where) as runtime:
        made = SharedLake(runtime, Project(tmp_path / "project"))
        yield made
        made.drop()
    store._file_system.cache_clear()


def test_a_silent_store_is_a_dependency_that_is_down_and_the_same_clients_go_on(
    lake: SharedLake, proxy: tuple[Proxy, Any]
) -> None:
    way, _ = proxy
    table = lake.table(rows(1), rows(2))
    lake.rewrite(table)
    loaded, checker = lake.load(table), metadata.catalog(lake.runtime)
    store.check(lake.runtime.lake, lake.runtime.lake.warehouse)
    assert metadata.history(checker, table).head is not None

    way.set("hole")
    with pytest.raises(DependencyDown, match=f"Cannot read table {table}") as told:
        lake.site.load(table)
    assert "NETWORK_CONNECTION" in told.value.why
    assert "drop" not in told.value.next
    with pytest.raises(DependencyDown):
        lake.expire(table)
    [why] = run.observe(lake.runtime, lake.project, [table])["errors"].values()
    assert "NETWORK_CONNECTION" in why
    unchecked = attempt(f"table {table}", lambda: metadata.history(checker, table))
    assert isinstance(unchecked, Failure)
    assert unchecked.transient, "no incident of the table"
    with pytest.raises(OSError, match="NETWORK_CONNECTION") as raw:
        loaded.scan().to_arrow()
    assert classify(error=raw.value) is FailureClass.DEPENDENCY
    with pytest.raises(DependencyDown, match="object store does not answer"):
        store.check(lake.runtime.lake, lake.runtime.lake.warehouse)
    way.set("pass")

    assert len(loaded.scan().to_arrow()) == 2
    store.check(lake.runtime.lake, lake.runtime.lake.warehouse)
    assert metadata.history(checker, table).head is not None
    assert run.observe(lake.runtime, lake.project, [table])["errors"] == {}
    [done] = lake.expire(table)["actions"]
    assert (done["result"], lake.ids(table)) == ("done", [1, 2])


@dataclass
class Erasing:
    """`lakeward tables erase` of the rows with id 2, as a person runs it."""

    lake: SharedLake
    table: str

    @property
    def runner(self) -> Runner:
        runtime = self.lake.runtime
        url = runtime.registry_url_file.read_text().strip()
        return Runner(connect=lambda: connect(url, runtime.pgpass), runtime=runtime, author="ann", holder="a test")

    def run(self) -> Outcome:
        """With the approval of the plan, which is shown first."""
        runner, scope = self.runner, Scope(self.table, "id = 2")
        plan = runner.plan(Erase(runner, Request(Erase.name, self.table, "ticket 7"), scope))
        request = Request(Erase.name, self.table, "ticket 7", approval=Approval("bob", plan.key))
        return runner.run(Erase(runner, request, scope))

    def left(self) -> list[str]:
        """Every Parquet file below the table that has such a row."""
        access = FileAccess(self.lake.runtime.lake)
        place = self.lake.load(self.table).location()
        found = []
        for folder in access.walk(place):
            for file in folder.files:
                path = "/".join(part for part in (place, folder.path, file.name) if part)
                if path.endswith(".parquet") and 2 in pq.read_table(access.open(path))["id"].to_pylist():
                    found.append(path)
        return found


@pytest.mark.campaign(held_by="test_a_silent_store_is_a_dependency_that_is_down_and_the_same_clients_go_on")
def test_an_erase_ends_when_the_store_falls_silent_and_the_same_command_goes_on(
    lake: SharedLake, proxy: tuple[Proxy, Any]
) -> None:
    """At each step, of a table each: a commit is done or it is not."""
    way, _ = proxy
    committed = {"": False, "erase-before-commit": False, "erase-rewritten": True, "erase-forgotten": True}
    for step, done in committed.items():
        erasing = Erasing(lake, lake.table(rows(1, 2), rows(3)))
        with failpoints.on(step, partial(way.set, "hole")), pytest.raises(DependencyDown) as told:
            if not step:
                way.set("hole")
            erasing.run()
        way.set("pass")
        assert "NETWORK_CONNECTION" in told.value.why
        assert told.value.code == ("LW-3440" if step else "LW-9149"), "the first one changed nothing"
        assert lake.ids(erasing.table) == ([1, 3] if done else [1, 2, 3])
        assert len(erasing.left()) == 1, "an earlier snapshot or its file"
        assert erasing.run().result == "done"
        assert (lake.ids(erasing.table), erasing.left()) == ([1, 3], [])


def test_a_file_of_a_silent_store_is_not_taken_for_one_that_cannot_be_read(
    lake: SharedLake, proxy: tuple[Proxy, Any]
) -> None:
    """An unreadable file in the trash does not keep an erase from being done."""
    way, _ = proxy
    table = lake.load(lake.table(rows(2)))
    access, trash = FileAccess(lake.runtime.lake), f"{table.location()}/.lakeward_orphans/x"
    access.write(f"{trash}/half.parquet", b"PAR1")
    [own] = lake.live(lake.made[-1])
    access.write(f"{trash}/whole.parquet", expect(access.content(own), "the file"))
    match = where.parse("id = 2", table.schema(), "t")
    found = files.strays(table, match, access)
    assert next(found)[0::2] == (f"{trash}/half.parquet", False)
    way.set("hole")
    with pytest.raises(OSError, match="NETWORK_CONNECTION"):
        next(found)
    way.set("pass")
    assert [readable for _, _, readable in files.strays(table, match, access)] == [False, True]
