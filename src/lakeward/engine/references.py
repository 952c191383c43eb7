"""The reference tables of one stream: kept in memory, read again when their interval is over and they changed.

A batch joins each reference at one version, the newest that was looked for. A batch that runs again may join a newer
one: it runs again only because nothing of it was visible.
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
class _Held:
    frame: DataFrame
    version: str
    due: float  # monotonic

    def release(self) -> None:
        """Let the rows go, which `localCheckpoint` keeps."""
        self.frame._jdf.logicalPlan().rdd().unpersist(False)


class References:
    """Reads each reference once an interval at most. Used by one thread at a time."""

    def __init__(self, stream: str, specs: Mapping[Name, Reference], runtime: Runtime) -> None:
        self._stream = stream
        self._specs = {str(name): spec for name, spec in specs.items()}
        self._readers: dict[str, Reader] = {name: reader_of(name, spec, runtime) for name, spec in self._specs.items()}
        self._held: dict[str, _Held] = {}

    def frames(self, session: SparkSession) -> dict[str, DataFrame]:
        """The references as of now, by name. One that cannot be read again stays as it was, with a warning."""
        for name, spec in self._specs.items():
            held = self._held.get(name)
            if held is None:
                self._held[name] = self._read(session, name, spec)
            elif time.monotonic() >= held.due:
                self._renew(session, name, spec, held)
        return {name: held.frame for name, held in self._held.items()}

    def changed(self, session: SparkSession) -> bool:
        """Whether a reference whose interval is over has another content: a plan that holds it must be made anew."""
        found = False
        for name, spec in self._specs.items():
            held = self._held.get(name)
            if held is not None and time.monotonic() >= held.due:
                held.due = time.monotonic() + spec.refresh.seconds
                try:
                    found = found or self._readers[name].version(session) != held.version
                except Exception as error:  # noqa: BLE001  # whatever keeps it from being read, the old content serves on
                    self._warn(name, error)
        return found

    def release(self) -> None:
        """Let the memory go."""
        for held in self._held.values():
            held.release()
        self._held.clear()

    def _read(self, session: SparkSession, name: str, spec: Reference) -> _Held:
        version = self._readers[name].version(session)  # before the rows: a change in between is seen next time
        frame = self._readers[name].read(session, version)
        # Now and whole, so that a later batch never finds the file gone or the snapshot expired. Not `persist`: it
        # knows rows by their plan, which two versions of a file share, and a plan looks for its tables each time.
        frame = frame.localCheckpoint(eager=True)
        rows = frame.count()
        _log.info("reference read", stream=self._stream, reference=name, rows=rows, version=version)
        return _Held(frame, version, time.monotonic() + spec.refresh.seconds)

    def _renew(self, session: SparkSession, name: str, spec: Reference, held: _Held) -> None:
        held.due = time.monotonic() + spec.refresh.seconds
        try:
            if self._readers[name].version(session) == held.version:
                return
            self._held[name] = self._read(session, name, spec)
        except Exception as error:  # noqa: BLE001  # whatever keeps it from being read, the old content serves on
            self._warn(name, error)
        else:
            held.release()

    def _warn(self, name: str, error: Exception) -> None:
        _log.warning(
            "reference cannot be read again, its old content stays",
            stream=self._stream,
            reference=name,
            error=str(error).splitlines()[0],
        )
