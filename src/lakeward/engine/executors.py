"""Whether executors on other machines find what a stream needs of the file systems: looked at by a small job, once.

A folder that only the driver's machine has fails late and in foreign words: rows are written to a disk that nobody
reads, and the commit finds no files. So a job on the executors reads a token in each folder and writes it back, before
anything of the stream runs. The job is Spark's own reader and writer of text: no Python is needed for it.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from lakeward.connectors.aws import store
from lakeward.connectors.kafka import cluster as kafka
from lakeward.connectors.kafka import spark_options
from lakeward.connectors.python import packages
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.file_paths import folder_of, here, local
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 180.0
"""How long a look waits for the cluster to give an executor."""
ASK_S = 10.0
HOW = "docs/how-to/run-on-a-spark-cluster.md"
_ABSENT = re.compile(
    r"FileNotFound|NoSuchFile|PATH_NOT_FOUND|Permission denied|AccessDenied|Mkdirs failed|Read-only file system"
)
_NO_PYTHON = re.compile(r"Cannot run program|PYTHON_VERSION_MISMATCH|No module named|Permission denied")
_seen: set[str] = set()
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Need:
    """A place that executors need.

    Attributes:
        path: on this machine, and by the same name on theirs.
        what: what it is, for the text.
        written: a folder that they write into; otherwise a file, or a folder of files, that they read.
    """

    path: Path
    what: str
    written: bool = False


@dataclass
class ExecutorStarvation:
    """Sees a driver that has no executor for long although tasks wait: its cluster is full, or forgot it.

    A master that restarts without its memory ends the executors of applications it does not know, and Spark waits for
    ever. A driver that ends is launched again, and registers anew.

    Attributes:
        executors: gives how many there are.
        busy: whether a stage is active.
    """

    executors: Callable[[], int]
    busy: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic
    _since: float | None = None
    _asked: float = 0.0

    @classmethod
    def of(cls, spark: SparkSession) -> ExecutorStarvation | None:
        """Of a session; None where the driver does all work itself."""
        context = spark.sparkContext
        inside = context._jsc.sc()
        if inside.isLocal():
            return None
        tracker = context.statusTracker()
        return cls(lambda: int(inside.getExecutorIds().size()), lambda: bool(tracker.getActiveStageIds()))

    def why(self) -> str | None:
        """In which words the driver ends; None while all is well, or may yet become so."""
        now = self.clock()
        if now - self._asked < ASK_S:
            return None
        self._asked = now
        try:
            alone = self.executors() <= 0 and self.busy()
        except Exception:  # noqa: BLE001  # named boundary: whatever py4j raises when the JVM goes; its process tells
            return None
        if not alone:
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        if now - self._since < PATIENCE_S:
            return None
        return (
            f"The Spark cluster gave no executor for {now - self._since:.0f} s although tasks wait: it is full, or "
            "its master was started anew and does not know this application"
        )


def check(session: SparkSession, spec: StreamSpec, runtime: Runtime, checkpoint: str, *, stateful: bool) -> None:
    """Whether the executors of this driver can do the work of a stream; nothing to ask where it has none elsewhere.

    Args:
        checkpoint: the stream's; executors write into it only where there is state.

    Raises:
        SpecError: they do not find something.
        DependencyDown: the cluster gave no executor.
    """
    if session.sparkContext._jsc.sc().isLocal():
        return
    stream = str(spec.id)
    for need in needs(spec, runtime, checkpoint, stateful=stateful):
        absent = not need.written and not need.path.exists()  # here: whoever reads it says so
        if str(need.path) not in _seen and not absent:
            _look(session, stream, need)
            _seen.add(str(need.path))
    imports = _imports(spec)
    folder = str(packages.folder_of(spec.packages, runtime.environments)) if spec.packages else ""
    if imports is not None and (key := f"python {imports} {folder}") not in _seen:
        _look_at_python(session, stream, imports, folder)
        _seen.add(key)


def needs(spec: StreamSpec, runtime: Runtime, checkpoint: str, *, stateful: bool) -> Iterator[Need]:
    """The places of this machine that executors must find by the same name."""
    if any(name in spec.sink.document() for name in ("iceberg", "delta")) or spec.quarantine:
        yield from _folder(runtime.lake.warehouse, "the warehouse")
    if stateful:
        yield from _folder(checkpoint, "the checkpoint, which holds state")
    if spec.sink.files:
        yield from _folder(str(spec.sink.files.path), "the sink's folder")
    for name, source in spec.sources.items():
        if source.files:
            yield from _folder(folder_of(source.files.path), f"the folder of source {name}", written=False)
    for name, reference in spec.reference.items():
        if place := reference.csv or reference.parquet:
            yield from _folder(str(place), f"reference {name}", written=False)
    ends = [*(source.kafka for source in spec.sources.values()), spec.sink.kafka]
    for connection in sorted({str(each.connection) for each in ends if each is not None}):
        found = kafka.find(connection, runtime)
        if found.file is not None and found.settings.mechanism:
            yield Need(spark_options.file_of(found.file), f"the login of Kafka connection {connection}")
        if found.settings.ca is not None:
            yield Need(found.settings.ca, f"the certificates of Kafka connection {connection}")
    account = store.account_of(runtime.lake)
    if account is not None and account.file is not None:
        yield Need(account.file, "the keys of the object store")


def _folder(place: str, what: str, *, written: bool = True) -> Iterator[Need]:
    if here(place):
        yield Need(Path(local(place)), what, written)


def _look(session: SparkSession, stream: str, need: Need) -> None:
    try:
        _within(session, lambda: _written(session, need.path) if need.written else _read(session, need.path))
    except Exception as error:
        if not _ABSENT.search(str(error)):
            raise  # an executor was lost, or none was to be had: that says nothing of the place
        raise SpecError(
            f"The executors of stream {stream} do not share {need.what} with its driver",
            why=f"{need.path}: {_reason(error)}",
            next=f"let every machine of the cluster have it under this path ({HOW}), "
            f"then: lakeward streams start {stream}",
            code="LW-2208",
        ) from None


def _read(session: SparkSession, place: Path) -> None:
    """Read a file where the executors are, or look at one of a folder. It may hold a secret: nothing of it is kept."""
    if not place.is_dir():
        session.read.text(f"file://{place}").count()  # its lines are counted there
    elif file := next((each for each in place.rglob("[!._]*") if each.is_file()), None):
        session.read.format("binaryFile").load(f"file://{file}").select("length").collect()  # its size is asked there


def _written(session: SparkSession, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    token = uuid4().hex
    probe = folder / f"lakeward-probe-{token}"
    probe.mkdir()
    try:
        (probe / "token").write_text(token)
        session.read.text(f"file://{probe}/token").write.text(f"file://{probe}/seen")
        parts = (probe / "seen").glob("part-*")
        if "".join(part.read_text() for part in parts).strip() != token:
            raise FileNotFoundError("what they write there does not arrive here: it is another disk")
    finally:
        shutil.rmtree(probe, ignore_errors=True)


def _imports(spec: StreamSpec) -> list[str] | None:
    """What Python on the executors must be able to import; None where the stream has none there."""
    if any(source.kinesis for source in spec.sources.values()):
        return ["lakeward", "boto3"]
    code = spec.transform.python or spec.transform.udfs or spec.sink.python or spec.packages
    return [] if code else None


def _look_at_python(session: SparkSession, stream: str, imports: list[str], folder: str) -> None:
    """Start Python on an executor. Spark itself compares its version with the driver's."""

    def look(_: int) -> list[str]:  # goes there by value, and imports nothing of ours
        import importlib.util
        from pathlib import Path

        wrong = [f"it has no package {name}" for name in imports if importlib.util.find_spec(name) is None]
        return wrong if not folder or Path(folder).is_dir() else [*wrong, f"{folder} (requirements:) is not there"]

    context = session.sparkContext
    try:
        [wrong] = _within(session, lambda: context.parallelize([0], 1).map(look).collect())
        why = "; ".join(wrong)
    except Exception as error:
        if not _NO_PYTHON.search(str(error)):
            raise
        why = _reason(error)
    if why:
        interpreter = context.pythonExec
        raise SpecError(
            f"The executors of stream {stream} cannot run its Python",
            why=f"{interpreter}: {why}",
            next=f"install Python {sys.version_info.major}.{sys.version_info.minor} with it there, or name theirs: "
            f"drivers: {{<name>: {{spark: {{spark.pyspark.python: PATH}}}}}} ({HOW})",
            code="LW-2206",
        )


def _within(session: SparkSession, work: Callable[[], _Answer]) -> _Answer:
    """Do the work in a thread, for as long as an executor may be waited for.

    Raises:
        DependencyDown: the cluster gave none.
    """
    from pyspark.util import InheritableThread

    tag, done = f"lakeward-look-{uuid4().hex}", Future[_Answer]()

    def run() -> None:
        session.sparkContext.addJobTag(tag)
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  # named boundary: raised again where it was asked for
            done.set_exception(error)

    thread = InheritableThread(target=run, daemon=True, name="look at executors", session=session)
    thread.start()
    thread.join(PATIENCE_S)
    if thread.is_alive():
        session.sparkContext.cancelJobsWithTag(tag)
        raise DependencyDown(
            f"The Spark cluster gave no executor in {PATIENCE_S:.0f} s",
            why=f"{session.sparkContext.master} has no worker with as many free cores and as much memory as one needs, "
            "or its workers cannot reach this machine",
            next="look at the master's UI; executors: of the driver in conf/lakeward.yaml says how large they are",
            code="LW-2207",
        )
    return done.result()


def _reason(error: Exception) -> str:
    """The line that names the cause, of what may be pages of stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    telling = [line for line in lines if "Exception" in line or "Error" in line]
    found = (causes[-1:] or telling[:1] or lines[:1] or [type(error).__name__])[0]
    return found.removeprefix("Caused by: ")[:400]
