"""Up to where a hop's records are accounted for, kept beside its checkpoint: Spark wants that folder for itself.

One small file each, numbered by the batch; the newest that can be read counts. File 0 says where the stream began.
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

_KEPT = 3


@dataclass(frozen=True)
class ProgressMarker:
    """The batches before `batch` are accounted for: the records up to `end`."""

    batch: int
    end: str


class ProgressMarkers:
    """Those of one checkpoint.

    Args:
        session: knows the file system.
        checkpoint: the folder of the query's own files.
    """

    def __init__(self, session: SparkSession, folder: str) -> None:
        self._session = session
        self._files = files.files_of(session, folder)
        self.folder = f"{folder}.accounted"

    def newest(self) -> ProgressMarker | None:
        """The newest; None before the first start."""
        for number in self._numbers():
            with suppress(ValueError, KeyError, TypeError):  # cut by a kill: the one before counts
                end = json.loads(self._files.text(f"{self.folder}/{number}") or "")["end"]
                return ProgressMarker(number, canonical_json(end))
        return None

    def put(self, mark: ProgressMarker) -> None:
        """Keep one; the oldest go."""
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
        for old in self._numbers()[_KEPT:]:
            system.delete(path(old), False)

    def _numbers(self) -> list[int]:
        return sorted((int(name) for name in self._files.names(self.folder) if name.isdigit()), reverse=True)
