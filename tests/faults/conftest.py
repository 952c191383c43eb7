"""What the fault tests break: a deployment of their own, and a PostgreSQL they may stop."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import interpretation
import pytest
from desk import Desk
from town import Town
from world import World, make_world, simple_stream, with_database

from lakeward.platform import ports
from lakeward.registry import engine
from lakeward.stack import private
from lakeward.stack.postgres import Postgres, environment, pgpass


@pytest.fixture
def world(postgres: Any, kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A deployment and a driver's name of this test's own; whatever was started ends with the test."""
    monkeypatch.setenv("PGPASSFILE", str(postgres.pgpass))
    registry, catalog = postgres.create_registry(), postgres.create_database()
    made = make_world(postgres, postgres.pgpass, postgres.url(registry), catalog, kafka, tmp_path)
    made.interpretation = interpretation.of_the_gate()
    yield made
    made.end()
    for database in (registry, catalog):
        postgres.drop_database(database)


@dataclass
class PrivatePostgres:
    """A PostgreSQL of one test's own, which it may stop and start."""

    server: Postgres
    folder: Path
    pgpass: Path
    user: str = "lakeward"
    host: str = ports.HOST
    _held: ExitStack = field(default_factory=ExitStack)

    @property
    def port(self) -> int:
        return self.server.port

    def start(self) -> None:
        self._held.enter_context(running(self.server, self.folder / "log"))
        self.server.wait("admin")

    def stop(self) -> None:
        self._held.close()


@contextmanager
def running(server: Postgres, log: Path) -> Iterator[None]:
    """The server in the foreground of its own process group."""
    with log.open("ab") as sink:
        process = subprocess.Popen(
            server.command(bound=True), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True,
            env=environment(), cwd="/",
        )  # fmt: skip
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


@pytest.fixture
def private_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivatePostgres]:
    """PostgreSQL with the databases `registry` and `catalog`."""
    folder = tmp_path_factory.mktemp("private")
    server = Postgres(folder / "pg", ports.any_free(), {"fsync": "off", "full_page_writes": "off"})
    server.initialise("admin")
    made = PrivatePostgres(
        server, folder, private.write(folder / "pgpass", pgpass(server.port, {"lakeward": "secret"}))
    )
    made.start()
    server.prepare("admin", {"lakeward": "secret"}, {"registry": "lakeward", "catalog": "lakeward"})
    yield made
    made.stop()


@pytest.fixture
def private_world(
    private_postgres: PrivatePostgres, kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A world on `private_postgres`."""
    monkeypatch.setenv("PGPASSFILE", str(private_postgres.pgpass))
    url = f"postgresql://lakeward@{ports.HOST}:{private_postgres.port}/registry"
    engine.migrate(url, private_postgres.pgpass)
    made = make_world(private_postgres, private_postgres.pgpass, url, "catalog", kafka, tmp_path)
    made.interpretation = interpretation.of_the_gate()
    yield made
    made.end()


@pytest.fixture
def apart_world(
    private_world: World, postgres: Any, kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A world with the registry of `private_world` and a catalog on the PostgreSQL that stays."""
    passwords = private_world.pgpass.read_text() + postgres.pgpass.read_text()
    both = private.write(tmp_path / "both.pgpass", passwords)
    monkeypatch.setenv("PGPASSFILE", str(both))
    catalog, place = postgres.create_database(), tmp_path / "apart"
    place.mkdir()
    made = make_world(postgres, both, private_world.url, catalog, kafka, place)
    made.interpretation = interpretation.of_the_gate()
    yield made
    made.end()
    postgres.drop_database(catalog)


@pytest.fixture(scope="module")
def host(postgres: Any, kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose driver runs, for streams that tests deploy on it and remove; a stream of its own keeps it up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSFILE", str(postgres.pgpass))
        registry, catalog = postgres.create_registry(), postgres.create_database()
        made = make_world(
            postgres, postgres.pgpass, postgres.url(registry), catalog, kafka, tmp_path_factory.mktemp("host")
        )
        made.interpretation = interpretation.of_the_gate()
        keeper = f"{made.name}_keeper"
        made.deploy(simple_stream(keeper, kafka.create_topic(), f"{made.name}.keeper", trigger={"every": "10s"}))
        made.launch()
        yield made
        made.end()
        for database in (registry, catalog):
            postgres.drop_database(database)


@pytest.fixture
def simple() -> Callable[..., dict[str, Any]]:
    """Makes the spec of a stream that lands `{"n", "s"}` records row by row."""
    return simple_stream


@pytest.fixture(scope="module")
def town(request: Any, postgres: Any, kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Many streams on one driver: those that the selected tests of the module name in `USES`."""
    patch, folder = pytest.MonkeyPatch(), tmp_path_factory.mktemp("town")
    patch.setenv("PGPASSFILE", str(postgres.pgpass))
    registry, catalog = postgres.create_registry(), postgres.create_database()
    world = make_world(postgres, postgres.pgpass, postgres.url(registry), catalog, kafka, folder / "world")
    world.interpretation = interpretation.of_the_gate()
    made = Town(Desk(with_database(world, catalog), folder / "desk", here=True))
    made.specs = getattr(request.module, "SPECS", {})
    uses, tests = request.module.USES, [item for item in request.session.items if item.module is request.module]
    made.build(list(dict.fromkeys(uses[item.name.removeprefix("test_")] for item in tests)))
    yield made
    made.end()
    for database in (registry, catalog):
        postgres.drop_database(database)
    patch.undo()
