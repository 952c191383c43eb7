"""A home that version 0.1.0 left, with a batch published and not yet in Spark's commit log, goes on under this version.

`tests/support/home_0_1/make.py` made it. Iceberg's metadata names absolute paths, so it is unpacked where it was made;
a lock keeps two runs of this test on one machine apart.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import interpretation
import pytest
from pyarrow import parquet
from world import World, make_world

from lakeward.connectors.delta import log
from lakeward.connectors.delta.location import folder_of
from lakeward.connectors.delta.position_store import DeltaPositionStore
from lakeward.registry import drivers, engine, streams
from lakeward.registry.version import check
from lakeward.stack.postgres import binary

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

HOME = Path("/tmp/lakeward-home-0.1")
ARCHIVE = Path(__file__).parents[1] / "support" / "home_0_1" / "home.tar.gz"


@pytest.fixture
def home() -> Iterator[Path]:
    """The files of the old home, at the path they were made at."""
    with Path(f"{HOME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir()
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(HOME, filter="data")
        yield HOME
        shutil.rmtree(HOME)


def load(postgres: Any, database: str, file: Path) -> None:
    """Run a dump."""
    command = [
        str(binary("psql")), "-h", postgres.host, "-p", str(postgres.port), "-U", postgres.user, "-d", database,
        "-v", "ON_ERROR_STOP=1", "-q", "-f", str(file),
    ]  # fmt: skip
    env = {**os.environ, "PGPASSFILE": str(postgres.pgpass)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def old(home: Path, postgres: Any, kafka: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The deployment of 0.1.0 on today's code, its registry upgraded as `stack up` does it."""
    monkeypatch.setenv("PGPASSFILE", str(postgres.pgpass))
    registry, catalog = postgres.create_database(), postgres.create_database()
    load(postgres, registry, home / "registry.sql")
    load(postgres, catalog, home / "catalog.sql")
    engine.migrate(postgres.url(registry), postgres.pgpass)
    made = make_world(postgres, postgres.pgpass, postgres.url(registry), catalog, kafka, home)
    made.name = "old"
    made.interpretation = interpretation.of_the_gate()
    yield made
    made.end()
    for database in (registry, catalog):
        engine.engine(postgres.url(database), postgres.pgpass).dispose()
        postgres.drop_database(database)


def test_streams_of_the_version_before_go_on_exactly(old: World, home: Path) -> None:
    with old.connect() as connection:
        check(connection)
        row = drivers.find(connection, "old")
        assert row is not None and row.token, "the driver that was killed is known"
        assert {item.id for item in streams.all_streams(connection)} == {"old_rows", "old_counts", "old_delta"}
    assert old.position("old.rows", "old_rows")["totals"]["landed"] == 25, "the last batch is published"
    offsets = sorted((home / "checkpoints" / "old_rows" / "1" / "offsets").glob("[0-9]*"))
    commits = sorted((home / "checkpoints" / "old_rows" / "1" / "commits").glob("[0-9]*"))
    assert len(offsets) == len(commits) + 1, "and Spark does not know it"

    old.forget_leases()
    driver = old.launch(token=uuid4().hex)
    (home / "in" / "5.json").write_text(
        "".join(json.dumps({"n": n, "s": f"key {n % 3}"}) + "\n" for n in range(25, 30))
    )
    old.wait_landed("old.rows", "old_rows", 30)
    old.wait_for("all counts", lambda: sum(row["many"] for row in old.rows("old.counts")) >= 30)
    delta = folder_of(old.runtime.lake, "old.delta")
    store = DeltaPositionStore(delta, "old.delta", "old_delta")
    old.wait_for("all rows in the Delta table", lambda: store.read().position.totals.landed >= 30)
    assert driver.terminate() == 0, driver.said()

    assert Counter(row["n"] for row in old.rows("old.rows")) == Counter(range(30))
    assert {row["s"]: row["many"] for row in old.rows("old.counts")} == {f"key {key}": 10 for key in range(3)}
    files = [log.absolute(delta, path) for path in log.read(delta).files]
    assert Counter(n for file in files for n in parquet.read_table(file)["n"].to_pylist()) == Counter(range(30))
