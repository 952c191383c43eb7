"""Reading a checkpoint's files: on this machine, or through Hadoop where it stands on an object store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lakeward.driver import preflight
from lakeward.driver.preflight import Checkpoint, Entry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READ = 2  # the newest files; Spark reads no others at a restart


class Files(Protocol):
    """The two things a checkpoint's reader needs."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it does not exist."""
        ...

    def text(self, file: str) -> str | None:
        """A file's text, None if it does not exist."""
        ...


class LocalFiles:
    """Files of this machine."""

    def names(self, folder: str) -> list[str]:
        path = Path(folder.removeprefix("file://"))
        return [each.name for each in path.iterdir()] if path.is_dir() else []

    def text(self, file: str) -> str | None:
        path = Path(file.removeprefix("file://"))
        return path.read_text(errors="replace") if path.is_file() else None


class HadoopFiles:
    """Files of whatever file system the JVM knows."""

    def __init__(self, session: SparkSession) -> None:
        self._jvm = session._jvm
        self._conf = session._jsparkSession.sessionState().newHadoopConf()

    def names(self, folder: str) -> list[str]:
        path = self._jvm.org.apache.hadoop.fs.Path(folder)  # type: ignore[union-attr]  # classic sessions have a JVM
        system = path.getFileSystem(self._conf)
        return [str(each.getPath().getName()) for each in system.listStatus(path)] if system.exists(path) else []

    def text(self, file: str) -> str | None:
        path = self._jvm.org.apache.hadoop.fs.Path(file)  # type: ignore[union-attr]  # classic sessions have a JVM
        system = path.getFileSystem(self._conf)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))  # type: ignore[union-attr]  # see above
        finally:
            stream.close()


def files_of(session: SparkSession, folder: str) -> Files:
    """Whatever can read `folder`."""
    return LocalFiles() if "://" not in folder or folder.startswith("file://") else HadoopFiles(session)


def read(files: Files, folder: str) -> Checkpoint:
    """What stands in a checkpoint's folder."""
    metadata = files.text(f"{folder}/metadata")
    return Checkpoint(
        folder=folder,
        query_id=None if metadata is None else preflight.parse_metadata(metadata),
        offsets=_log(files, f"{folder}/offsets", offsets=True),
        commits=_log(files, f"{folder}/commits", offsets=False),
    )


def _log(files: Files, folder: str, *, offsets: bool) -> dict[int, Entry]:
    numbers = sorted(int(name) for name in files.names(folder) if name.isdigit())
    found = dict.fromkeys(numbers, Entry())
    for number in numbers[-_READ:]:
        text = files.text(f"{folder}/{number}")
        if text is not None:
            found[number] = preflight.parse_offsets(text) if offsets else preflight.parse_commit(text)
    return found
