"""A home with a registry, a catalog and a broker, in which the demo's streams are deployed; nothing runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.app import main
from lakeward.connectors.iceberg.catalog import create_schema
from lakeward.operations import waiting
from lakeward.platform.runtime import Lake, Project, Runtime
from lakeward.registry import drivers, generations, leases, observations, streams
from lakeward.registry.engine import connect, engine
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.loader import load_project
from lakeward.supervision.backends import identity

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Answer:
    """What one call of `lakeward` left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Site:
    """A home with a registry, a catalog and a broker, and the demo's streams deployed."""

    home: Path
    runtime: Runtime
    topic: str
    _capture: pytest.CaptureFixture[str]

    def lakeward(self, *arguments: str) -> Answer:
        """Run the command as a user would."""
        self._capture.readouterr()
        try:
            main([*arguments, "--home", str(self.home), "--project", str(ROOT)])
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        found = self._capture.readouterr()
        return Answer(code, found.out, found.err)

    def registry(self) -> Any:
        return connect(self.runtime.registry_url_file.read_text(), self.runtime.pgpass)


@cache
def _demo_specs() -> tuple[StreamSpec, ...]:
    """The demo's streams; the project is read once a run."""
    return tuple(load_project(Project(ROOT)).specs)


@pytest.fixture(scope="session")
def migrated(postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with the registry's and the catalog's tables, to be copied."""
    name: str = postgres.create_registry()
    create_schema(Lake(host=postgres.host, port=postgres.port, database=name, warehouse="w"), postgres.pgpass)
    return name


@pytest.fixture
def copied(postgres: Any, migrated: str) -> Iterator[str]:
    """A fresh copy of it."""
    name = postgres.copy_database(migrated)
    yield name
    postgres.drop_database(name)


@pytest.fixture
def site(
    tmp_path: Path,
    postgres: Any,
    kafka: Any,
    copied: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(waiting, "LOOK_EVERY_S", 0.1)
    home = tmp_path / "home"
    (home / "secrets").mkdir(parents=True)
    url = postgres.url(copied)
    (home / "secrets" / "registry.url").write_text(url)
    shutil.copy2(postgres.pgpass, home / "secrets" / "pgpass")
    lake = Lake(host=postgres.host, port=postgres.port, database=copied, warehouse=str(tmp_path / "warehouse"))
    runtime = Runtime(
        registry_url_file=home / "secrets" / "registry.url",
        pgpass=postgres.pgpass,
        lake=lake,
        kafka={"lakeward_kafka": kafka.bootstrap},
        checkpoints=str(home / "checkpoints"),
        drivers=home / "drivers",
        jars=home / "jars",
    )
    (home / "runtime.json").write_text(runtime.model_dump_json())
    topic = kafka.create_topic(partitions=2, config={"retention.ms": "86400000"})
    with connect(url, postgres.pgpass) as connection:
        for spec in _demo_specs():
            document = json.loads(
                json.dumps(spec.document()).replace('"topics": ["flights"]', f'"topics": ["{topic}"]')
            )
            streams.accept(connection, spec.id, generation=1, driver=spec.driver, desired="stopped")
            generations.add(
                connection,
                stream=spec.id,
                generation=1,
                spec=document,
                digest=spec.id,
                sql=spec.transform.sql,
                code={},
                versions={},
                author="test",
                checkpoint=str(home / "checkpoints" / spec.id / "1"),
            )
    yield Site(home, runtime, topic, capsys)
    engine(url, postgres.pgpass).dispose()


@pytest.fixture
def landed(site: Site) -> Callable[..., Any]:
    """Make the table `nyc.flights` say that offsets were landed: `landed({0: 5, 1: 3}, rows=[(0, 0), ...])`."""
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    from lakeward.connectors.commit_protocol.position import Position, Totals, key
    from lakeward.connectors.iceberg.catalog import pyiceberg_properties

    def make(end: dict[int, int], rows: list[tuple[int, int]]) -> Any:
        catalog = load_catalog("lake", **pyiceberg_properties(site.runtime.lake, site.runtime.pgpass))
        catalog.create_namespace_if_not_exists("nyc")
        data = pa.table(
            {
                "_kafka_topic": pa.array([site.topic] * len(rows), pa.string()),
                "_kafka_partition": pa.array([part for part, _ in rows], pa.int32()),
                "_kafka_offset": pa.array([offset for _, offset in rows], pa.int64()),
            }
        )
        table = catalog.create_table("nyc.flights", data.schema)
        table.append(data)
        head = table.refresh().current_snapshot()
        offsets = json.dumps({site.topic: {str(part): at for part, at in end.items()}})
        position = Position(
            seq=3,
            query_id="q",
            batch=2,
            generation=1,
            begin={"flights": json.dumps({site.topic: dict.fromkeys(map(str, end), 0)})},
            end={"flights": offsets},
            snapshot=head.snapshot_id,
            snapshot_seq=head.sequence_number,
            totals=Totals(consumed=sum(end.values()), landed=len(rows)),
        )
        with table.transaction() as change:
            change.set_properties({key("flights"): position.to_json()})
        return table

    return make


def running(site: Any, **observed: Any) -> None:
    """As if the driver ran in this very process."""
    with site.registry() as connection:
        streams.set_desired(connection, ["flights"], "running")
        drivers.record_intent(connection, "demo", token="t", previous=None, backend="local")
        folder = site.runtime.drivers / "demo" / "one"
        folder.mkdir(parents=True, exist_ok=True)
        drivers.started(connection, "demo", "t", handle=identity.of(os.getpid()), host=identity.host(), log=str(folder))
        drivers.beat(connection, "demo", "t", state="running")
        leases.take(connection, "stream", "flights", "t", "demo", timedelta(seconds=60))
        streams.set_state(connection, "flights", "starting", "its driver was launched")
    with site.registry() as connection:  # what it landed is younger than its start
        observations.record(connection, "flights", **observed)
