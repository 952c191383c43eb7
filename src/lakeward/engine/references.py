"""The reference tables of one stream: cached, and read again if they have changed when their interval is over.

A batch joins each reference at one version, the newest that was read. A batch that runs again may join a newer version:
it runs again only if none of its rows was visible.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from lakeward.connectors.reference.base import Reader
from lakeward.connectors.reference.choose import reader_of
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.sources import Reference
from lakeward.spec.model.types import Name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = structlog.get_logger(__name__)


@dataclass
class _Cached:
    frame: DataFrame
    version: str
    due: float  # monotonic

    def release(self) -> None:
        """Release the rows that `localCheckpoint` keeps."""
        self.frame._jdf.logicalPlan().rdd().unpersist(False)


class References:
    """Reads each reference at most once in its interval. For one thread at a time."""

    def __init__(self, stream: str, specs: Mapping[Name, Reference], runtime: Runtime) -> None:
        self._stream = stream
        self._specs = {str(name): spec for name, spec in specs.items()}
        self._readers: dict[str, Reader] = {name: reader_of(name, spec, runtime) for name, spec in self._specs.items()}
        self._cached: dict[str, _Cached] = {}

    def frames(self, session: SparkSession) -> dict[str, DataFrame]:
        """The current references, by name. One that cannot be read again keeps its previous content, with a warning."""
        for name, spec in self._specs.items():
            cached = self._cached.get(name)
            if cached is None:
                self._cached[name] = self._read(session, name, spec)
            elif time.monotonic() >= cached.due:
                self._renew(session, name, spec, cached)
        return {name: cached.frame for name, cached in self._cached.items()}

    def changed(self, session: SparkSession) -> bool:
        """Whether a reference has changed since its interval began: a plan that contains it must then be rebuilt."""
        changed = False
        for name, spec in self._specs.items():
            cached = self._cached.get(name)
            if cached is not None and time.monotonic() >= cached.due:
                cached.due = time.monotonic() + spec.refresh.seconds
                try:
                    changed = changed or self._readers[name].version(session) != cached.version
                except Exception as error:  # noqa: BLE001  # any error: the previous content is used
                    self._warn(name, error)
        return changed

    def release(self) -> None:
        """Release all cached rows."""
        for cached in self._cached.values():
            cached.release()
        self._cached.clear()

    def _read(self, session: SparkSession, name: str, spec: Reference) -> _Cached:
        version = self._readers[name].version(session)  # before the rows: a later change is found next time
        frame = self._readers[name].read(session, version)
        # All rows are read now, so that a later batch does not fail on a missing file or an expired snapshot. Not with
        # `persist`: it identifies rows by their plan, which is the same for two versions of a file.
        frame = frame.localCheckpoint(eager=True)
        rows = frame.count()
        _log.info("reference read", stream=self._stream, reference=name, rows=rows, version=version)
        return _Cached(frame, version, time.monotonic() + spec.refresh.seconds)

    def _renew(self, session: SparkSession, name: str, spec: Reference, cached: _Cached) -> None:
        cached.due = time.monotonic() + spec.refresh.seconds
        try:
            if self._readers[name].version(session) == cached.version:
                return
            self._cached[name] = self._read(session, name, spec)
        except Exception as error:  # noqa: BLE001  # any error: the previous content is used
            self._warn(name, error)
        else:
            cached.release()

    def _warn(self, name: str, error: Exception) -> None:
        _log.warning(
            "reference not readable, previous content used",
            stream=self._stream,
            reference=name,
            error=str(error).splitlines()[0],
        )
