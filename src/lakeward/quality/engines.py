"""What a run works with: the registry, the catalog, a Spark session and Great Expectations, each when first needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.quality import metadata
from lakeward.registry import engine
from lakeward.runtime import Runtime

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql.connect.session import SparkSession
    from sqlalchemy import Connection

    from lakeward.quality.gx import Checker

log = structlog.get_logger(__name__)


@dataclass
class Engines:
    """What a run needs, each made when first needed: a run with nothing to do never pays for GX or a session."""

    runtime: Runtime
    registry_url: str
    session_of: Callable[[], SparkSession]
    _stages: dict[str, set[int]] = field(default_factory=dict)

    @contextmanager
    def registry(self) -> Iterator[Connection]:
        """One transaction."""
        with engine.connect(self.registry_url, self.runtime.pgpass) as connection:
            yield connection

    @cached_property
    def lake(self) -> Catalog:
        """The catalog, as PyIceberg sees it."""
        return metadata.catalog(self.runtime)

    @cached_property
    def session(self) -> SparkSession:
        """The Spark Connect session; counts what it runs."""
        session = self.session_of()
        # A statement shorter than the interval (2 s by default) would not be told of, and not be counted.
        session.conf.set("spark.connect.progress.reportInterval", "20ms")
        handler: Any = self._progress
        session.registerProgressHandler(handler)
        return session

    @cached_property
    def checker(self) -> Checker:
        """Great Expectations, 7 CPU-seconds to import."""
        began = time.process_time()
        from lakeward.quality.gx import Checker

        made = Checker()
        log.info("Great Expectations is ready", cpu_s=round(time.process_time() - began, 1))
        return made

    @property
    def jobs(self) -> int:
        """Spark jobs run so far: stages that ran a task, for under adaptive execution each is a job of its own. Taken
        from progress reports, so a job of a few milliseconds may be missed."""
        return sum(len(each) for each in self._stages.values())

    def _progress(self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        self._stages.setdefault(operation_id or "", set()).update(
            each.stage_id for each in stages or () if each.num_completed_tasks
        )
