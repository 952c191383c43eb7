"""All samples of the registry, read at most once in `CACHE_S` for all that collect them.

It asks the registry a fixed number of queries, however many streams there are. While the registry is away the samples
are `lakeward_registry_up 0` and nothing else: old figures would look new.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from lakeward.metrics import definitions, samples
from lakeward.metrics.samples import Sample, Tables
from lakeward.platform.errors import LakewardError
from lakeward.registry import maintenance, verifications
from lakeward.supervision.observe import Connect
from lakeward.supervision.report.material import observe_all
from lakeward.tables import changes

if TYPE_CHECKING:
    from lakeward.supervision.backends.base import Backend

log = structlog.get_logger(__name__)

CACHE_S = 3.0


class RegistryReading:
    """Reads everything, or returns what was read less than `CACHE_S` ago. Safe to call from several threads.

    Args:
        read: reads all samples.
    """

    def __init__(self, read: Callable[[], Sequence[Sample]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._newest: tuple[float, Sequence[Sample]] | None = None
        self._failure = ""

    def __call__(self) -> Sequence[Sample]:
        """All samples; `lakeward_registry_up 0` alone if the registry cannot be read."""
        with self._lock:  # scrapers that come at once share one reading
            if self._newest is not None and time.monotonic() - self._newest[0] < CACHE_S:
                return self._newest[1]
            try:
                found, failure = self._read(), ""
            except (LakewardError, OSError) as error:
                found, failure = [Sample(definitions.REGISTRY_UP, 0.0)], str(error)
            if failure != self._failure:
                if failure:
                    log.warning("metrics are not available", why=failure)
                else:
                    log.info("metrics are available again")
                self._failure = failure
            self._newest = (time.monotonic(), found)
            return found


def reader(connect: Connect, backend: Backend, *, partitions: bool = False) -> Callable[[], list[Sample]]:
    """Reads all samples from the registry; see `samples.of_everything`."""

    def read() -> list[Sample]:
        view = observe_all(connect, backend)
        with connect() as connection:
            runs = verifications.newest_of_tables(connection)
            checks = verifications.checks_of_runs(connection, [run["run"] for run in runs]) if runs else {}
            tables = Tables(
                maintenance.all_tables(connection),
                maintenance.newest_figures(connection),
                maintenance.due_since(connection),
                [(run, checks.get(run["run"], [])) for run in runs],
                changes.newest(connection),
            )
        return samples.of_everything(view, tables, partitions=partitions)

    return read
