"""A REST catalog of Iceberg's own handlers, which vends credentials that end: maintenance and registered tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import reference_rest
from reference_rest import Reference
from shared_files import SharedLake, deployment, rows

from lakeward.connectors.iceberg.catalogs.examine import answers_of
from lakeward.platform.runtime import Project, Runtime
from lakeward.tables.guard import pins


@pytest.fixture(scope="module")
def server(postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    with reference_rest.running(tmp_path_factory.mktemp("reference"), postgres, life_s=4.0) as made:
        yield made


@pytest.fixture(scope="module")
def where(server: Reference, postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with deployment(postgres, tmp_path_factory.mktemp("rest"), server.lake) as runtime:
        yield runtime


@pytest.fixture
def lake(where: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedLake]:
    monkeypatch.setattr(pins, "STAGED_FLOOR", timedelta(0))  # no stream stages here
    made = SharedLake(where, Project(tmp_path / "project"))
    yield made
    made.drop()


def test_an_expiry(lake: SharedLake, server: Reference) -> None:
    table = lake.table(rows(1), rows(2), rows(3))
    [done] = lake.expire(table)["actions"]
    assert (done["result"], done["verified"]) == ("done", True), done
    assert lake.ids(table) == [1, 2, 3]
    print(list(answers_of(lake.site.catalog)) if False else "")
    print(server.store.refused, len(server.store.used))
