"""Chooses the Spark of a table's maintenance: the warm Connect server, or an application of its own (`engine:
submit`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from lakeward.connectors.cluster.resolve import resolved
from lakeward.connectors.spark.application import application
from lakeward.connectors.spark.connect import lost, new_session_id, session
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.policy import Engine
from lakeward.spec.model.settings import MAINTENANCE
from lakeward.tables.context import MaintenanceContext

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Spark:
    """A session for the actions of one run.

    Attributes:
        session: a Spark Connect session.
        session_id: lets a successor interrupt its statements; None if the application ends with this process.
        runtime: names the server.
        lost: takes an error; returns why the server itself failed, as a sentence, or empty.
    """

    session: SparkSession
    session_id: str | None
    runtime: Runtime
    lost: Callable[[str], str]


OnSpark = AbstractContextManager[Callable[[], Spark]]
"""A block in which the first call opens a session: a run with nothing due opens none."""


@contextmanager
def on_spark(site: MaintenanceContext, table: str, engine: Engine) -> Iterator[Callable[[], Spark]]:
    """One session for the whole run, opened when the first action needs it.

    The call raises:
        DependencyDown: nothing listens at the server's address, or at that of the cluster's master.
        Unhealthy: the application did not start.
        SpecError: `conf/lakeward.yaml` is invalid, so the application's settings are unknown.
    """
    with ExitStack() as held:
        opened: list[Spark] = []

        def connected() -> Spark:
            if not opened:
                opened.append(held.enter_context(_warm(site.runtime) if engine == "connect" else _own(site, table)))
            return opened[0]

        yield connected


@contextmanager
def _warm(runtime: Runtime) -> Iterator[Spark]:
    session_id = new_session_id()
    with session(runtime, session_id=session_id) as spark:
        yield Spark(spark, session_id, runtime, lambda error: lost(runtime, error))


@contextmanager
def _own(site: MaintenanceContext, table: str) -> Iterator[Spark]:
    driver = resolved(MAINTENANCE, site.settings(), site.runtime.connections)
    where = f"executors of {driver.master}" if driver.master else f"{driver.cores} cores, {driver.memory}"
    with application(site.runtime, MAINTENANCE, driver) as app, session(app.runtime) as spark:
        log.info("Spark application started", table=table, on=where, seconds=app.start_s)
        yield Spark(spark, None, app.runtime, lambda _: app.ended())
