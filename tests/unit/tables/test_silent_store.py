"""An object store that says nothing: every reader is told so in bounded time, and the same clients go on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support import object_store
from tests.support.proxy import Proxy
from tests.support.shared_files import SharedLake, deployment, rows

from lakeward.connectors.aws import store
from lakeward.connectors.aws.account import ENDPOINT
from lakeward.platform import ports
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import DependencyDown
from lakeward.platform.failures import FailureClass, classify
from lakeward.platform.runtime import Lake, Project
from lakeward.quality.ranges import metadata
from lakeward.tables import run
from lakeward.tables.guard import pins


@pytest.fixture
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Any]]:
    """The way to a store, and the store's connection that goes this way."""
    with object_store.running(tmp_path_factory.mktemp("weed")) as weed:
        made = Proxy(weed.port)
        yield made, weed.connect("behind", **{ENDPOINT: f"http://{ports.HOST}:{made.port}"})
        made.close()


@pytest.fixture
def lake(
    proxy: tuple[Proxy, Any], postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SharedLake]:
    """A lake whose catalog answers all the time."""
    monkeypatch.setattr(store, "ANSWER_S", 1)
    monkeypatch.setattr(pins, "STAGED_FLOOR", timedelta(0))  # no stream stages here
    store._file_system.cache_clear()
    where = Lake(
        host=postgres.host, port=postgres.port, database=postgres.create_database(), user=postgres.user,
        warehouse="s3://lake/warehouse", store=proxy[1],
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
    store.check(lake.runtime.lake, "s3://lake/warehouse")
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
        store.check(lake.runtime.lake, "s3://lake/warehouse")
    way.set("pass")

    assert len(loaded.scan().to_arrow()) == 2
    store.check(lake.runtime.lake, "s3://lake/warehouse")
    assert metadata.history(checker, table).head is not None
    assert run.observe(lake.runtime, lake.project, [table])["errors"] == {}
    [done] = lake.expire(table)["actions"]
    assert (done["result"], lake.ids(table)) == ("done", [1, 2])
