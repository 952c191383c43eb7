"""Progress markers of a real-time query: up to where its records are accounted for. Stored beside the checkpoint, whose
folder belongs to Spark.

Each marker is a small file numbered by the batch; the newest readable one counts. File 0 says where the stream began.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.offsets import canonical_json
from lakeward.engine.checkpoint import files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETAINED = 3


@dataclass(frozen=True)
class ProgressMarker:
    """All batches before `batch`, so all records up to `end`, are accounted for."""

    batch: int
    end: str


class ProgressMarkers:
    """The progress markers of one checkpoint.

    Args:
        session: gives access to the file system.
        folder: the checkpoint.
    """

    def __init__(self, session: SparkSession, folder: str) -> None:
        self._session = session
        self._files = files.files_of(session, folder)
        self.folder = f"{folder}.accounted"

    def newest(self) -> ProgressMarker | None:
        """The newest marker; None before the first start."""
        for number in self._numbers():
            with suppress(ValueError, KeyError, TypeError):  # truncated by a kill: the one before counts
                end = json.loads(self._files.text(f"{self.folder}/{number}") or "")["end"]
                return ProgressMarker(number, canonical_json(end))
        return None

    def put(self, mark: ProgressMarker) -> None:
        """Write a marker; delete the oldest."""
        jvm: Any = self._session._jvm
        conf = self._session._jsparkSession.sessionState().newHadoopConf()

        def path(number: int) -> Any:
            return jvm.org.apache.hadoop.fs.Path(f"{self.folder}/{number}")

        system = path(mark.batch).getFileSystem(conf)
        stream = system.create(path(mark.batch), True)
        try:
            stream.write(json.dumps({"end": mark.end}).encode())
        finally:
            stream.close()
        for old in self._numbers()[_RETAINED:]:
            system.delete(path(old), False)

    def _numbers(self) -> list[int]:
        return sorted((int(name) for name in self._files.names(self.folder) if name.isdigit()), reverse=True)
