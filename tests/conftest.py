"""Tiers, seeds and sharing of work for every test; and the real services any test may use, one of each a run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import seeds
import structlog
import tiers
from airflow_service import airflow  # noqa: F401  # a fixture
from failures import PrintFailures
from secure_kafka import Guard, SecureKafka
from services import Host, KafkaService, PostgresService, Services, request_service, running, wait

from lakeward import jars
from lakeward.platform import ports
from lakeward.stack import service_user

# Where a shell forbids bytecode files, each process of a test would compile all that it imports again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

HOST = pytest.StashKey[Host]()

# In the gate Hypothesis draws the same examples in each run; at night others, and more than once as many.
hypothesis.settings.register_profile("gate", derandomize=True)
hypothesis.settings.register_profile("nightly", max_examples=300)
hypothesis.settings.load_profile("nightly" if os.environ.get(seeds.VARIABLE) else "gate")


def pytest_configure(config: pytest.Config) -> None:
    """Failures are printed when they happen."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(PrintFailures(config))


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test has one tier."""
    tiers.assign(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Workers share files by how long they take."""
    from packing import ByDuration

    return ByDuration(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker where the services of the run are asked for."""
    config = node.config
    if HOST not in config.stash:
        config.stash[HOST] = Host(config._tmp_path_factory.getbasetemp() / "services")
    host = config.stash[HOST]
    node.workerinput["services"] = (host.address, host.key, str(config._tmp_path_factory.getbasetemp() / "services"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """The services of the run end with it, also when tests failed."""
    if HOST in config.stash:
        config.stash[HOST].close()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A command that a test runs in this process says where logs go from then on; the next test has its own."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def services(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Callable[[str], Any], Path]]:
    """Gives a service by its name (`Services.get`), and the folder of all."""
    told = getattr(request.config, "workerinput", {}).get("services")
    if told:
        address, key, folder = told
        yield partial(request_service, address, key), Path(folder)
        return
    folder = tmp_path_factory.getbasetemp() / "services"
    own = Services(folder)
    yield own.get, folder
    own.close()


@pytest.fixture(scope="session")
def postgres(services: tuple[Callable[[str], Any], Path]) -> PostgresService:
    """The PostgreSQL of this run; databases of their own for whoever asks for one."""
    get, folder = services
    return PostgresService.of(get("postgres"), folder, get("registry"))


@pytest.fixture
def database(postgres: PostgresService) -> Iterator[str]:
    """The name of an empty database of this test's own."""
    name = postgres.create_database()
    yield name
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def kafka(services: tuple[Callable[[str], Any], Path]) -> KafkaService:
    """The Kafka broker of this run: `.bootstrap .create_topic(name, partitions)`."""
    get, _ = services
    return KafkaService(get("kafka"))


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    """A broker behind SASL_SSL with access control; gives users and permissions."""
    folder = tmp_path_factory.mktemp("secure-kafka")
    jars.ensure()
    java = jars.find_java()
    made = SecureKafka(folder, ports.any_free(), ports.any_free(), ports.any_free())
    made.certificates()
    made.initialise(java)
    log = folder / "log"
    with running(service_user.bound(made.command(java)), log, signal.SIGTERM, dict(os.environ)):
        wait(made.wait, log)
        yield Guard(made)
