"""Executor checks: executors on other machines must share the driver's folders and have the Python a stream needs.

A folder that only the driver's machine has would fail late, with an error that does not name it: rows are written to a
disk of the executor, and the commit finds no files. So before a stream starts, a job on the executors reads a token in
each folder and writes it back. The job uses Spark's own text reader and writer: it needs no Python.
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
"""How long a check waits until the cluster gives an executor."""
QUERY_EVERY_S = 10.0
HOW = "docs/how-to/run-on-a-spark-cluster.md"
_ABSENT = re.compile(
    r"FileNotFound|NoSuchFile|PATH_NOT_FOUND|Permission denied|AccessDenied|Mkdirs failed|Read-only file system"
)
_NO_PYTHON = re.compile(r"Cannot run program|PYTHON_VERSION_MISMATCH|No module named|Permission denied")
_TOO_MANY = re.compile(r"Max number of executor failures \(\d+\) reached", re.IGNORECASE)
_EXECUTOR_END = re.compile(r"(The executor with id \d+ (?:exited with|was) [^\\\"]{1,200}?)\.?(?=\\n|\")")
_checked: set[str] = set()
_Answer = TypeVar("_Answer")
Unstarted = Callable[[], DependencyDown | None]
"""Why the cluster has not started an executor; None if it does not say it."""


@dataclass(frozen=True)
class Need:
    """A path that executors need.

    Attributes:
        path: the same on this machine and on theirs.
        what: its purpose, for messages.
        written: a folder that they write into; otherwise a file, or a folder of files, that they read.
    """

    path: Path
    what: str
    written: bool = False


@dataclass
class ExecutorStarvation:
    """Detects a driver that has had no executor for `PATIENCE_S` although tasks wait.

    Its cluster is full, or the master restarted without its state: such a master ends the executors of applications it
    does not know, and Spark waits forever. A driver that ends is launched again, and registers as a new application.

    Attributes:
        executors: returns the number of executors.
        busy: returns whether a stage is active.
        unstarted: returns the reason of the cluster.
    """

    executors: Callable[[], int]
    busy: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic
    unstarted: Unstarted = lambda: None
    _since: float | None = None
    _queried_at: float = 0.0

    @classmethod
    def of(cls, spark: SparkSession, unstarted: Unstarted = lambda: None) -> ExecutorStarvation | None:
        """The detector of a session; None if the driver runs without executors."""
        context = spark.sparkContext
        inside = context._jsc.sc()
        if inside.isLocal():
            return None
        tracker = context.statusTracker()
        return cls(
            lambda: int(inside.getExecutorIds().size()),
            lambda: bool(tracker.getActiveStageIds()),
            unstarted=unstarted,
        )

    def why(self) -> str | None:
        """The reason to end the driver; None if there are executors or nothing waits, or not for long enough."""
        now = self.clock()
        if now - self._queried_at < QUERY_EVERY_S:
            return None
        self._queried_at = now
        try:
            alone = self.executors() <= 0 and self.busy()
        except Exception:  # noqa: BLE001  # named boundary: py4j raises anything when the JVM ends; the process watch reports that
            return None
        if not alone:
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        if now - self._since < PATIENCE_S:
            return None
        reason = self.unstarted()
        known = "it is full, or its master restarted and does not know this application"
        return (
            f"The Spark cluster gave no executor for {now - self._since:.0f} s although tasks wait: "
            f"{known if reason is None else f'{reason.headline}: {reason.why}; next: {reason.next}'}"
        )


def failures(log: str) -> str:
    """What Spark's log says if too many executors of the application failed; empty if they did not.

    Args:
        log: the end of `spark.log`, JSON lines.
    """
    if not _TOO_MANY.search(log):
        return ""
    ends = _EXECUTOR_END.findall(log)
    return f"too many of its executors failed{f'; the last one: {ends[-1]}' if ends else ''}"


def check(
    session: SparkSession, spec: StreamSpec, runtime: Runtime, checkpoint: str, unstarted: Unstarted, *, stateful: bool
) -> None:
    """Check that the executors of this driver can run a stream. A driver without executors needs no check.

    Args:
        checkpoint: of the stream; executors write into it only if the query keeps state.
        unstarted: returns the reason of the cluster if it gives none.

    Raises:
        SpecError: they lack a path or a package.
        DependencyDown: the cluster gave no executor.
    """
    if session.sparkContext._jsc.sc().isLocal():
        return
    stream = str(spec.id)
    for need in needs(spec, runtime, checkpoint, stateful=stateful):
        absent = not need.written and not need.path.exists()  # missing here too: its reader reports that
        if str(need.path) not in _checked and not absent:
            _check_path(session, stream, need, unstarted)
            _checked.add(str(need.path))
    imports = _imports(spec)
    folder = str(packages.folder_of(spec.packages, runtime.environments)) if spec.packages else ""
    if imports is not None and (key := f"python {imports} {folder}") not in _checked:
        _check_python(session, stream, imports, folder, unstarted)
        _checked.add(key)


def needs(spec: StreamSpec, runtime: Runtime, checkpoint: str, *, stateful: bool) -> Iterator[Need]:
    """The paths of this machine that executors must have too."""
    if any(name in spec.sink.document() for name in ("iceberg", "delta")) or spec.quarantine or spec.late:
        # In a REST catalog this is the folder of Delta tables; where its own tables are is known to its server alone.
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
    for connection in sorted({str(end.connection) for end in ends if end is not None}):
        found = kafka.find(connection, runtime)
        if found.file is not None and found.settings.mechanism:
            yield Need(spark_options.file_of(found.file), f"the login of Kafka connection {connection}")
        if found.settings.ca is not None:
            yield Need(found.settings.ca, f"the certificates of Kafka connection {connection}")
    account = store.account_of(runtime.lake)
    if account is not None and account.file is not None:
        yield Need(account.file, "the keys of the object store")
        if account.web_token is not None:
            yield Need(account.web_token, f"the token that assumes role {account.role}")


def _folder(place: str, what: str, *, written: bool = True) -> Iterator[Need]:
    if here(place):
        yield Need(Path(local(place)), what, written)


def _check_path(session: SparkSession, stream: str, need: Need, unstarted: Unstarted) -> None:
    try:
        _within(session, lambda: _written(session, need.path) if need.written else _read(session, need.path), unstarted)
    except Exception as error:
        if not _ABSENT.search(str(error)):
            raise  # an executor was lost, or the cluster gave none: this does not concern the path
        raise SpecError(
            f"The executors of stream {stream} do not share {need.what} with its driver",
            why=f"{need.path}: {_reason(error)}",
            next=f"let every machine of the cluster have it under this path ({HOW}), "
            f"then: lakeward streams start {stream}",
            code="LW-2208",
        ) from None


def _read(session: SparkSession, place: Path) -> None:
    """Read a file on an executor, or the size of one file of a folder. It may be secret: no content is returned."""
    if not place.is_dir():
        session.read.text(f"file://{place}").count()  # the executor counts its lines
    elif file := next((file for file in place.rglob("[!._]*") if file.is_file()), None):
        size = session.read.format("binaryFile").load(f"file://{file}").select("length")
        size.collect()  # the executor reads it


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
            raise FileNotFoundError("what the executors write does not arrive on this machine: it is another disk")
    finally:
        shutil.rmtree(probe, ignore_errors=True)


def _imports(spec: StreamSpec) -> list[str] | None:
    """The packages that Python on the executors must import; None if the stream runs no Python there."""
    if any(source.kinesis for source in spec.sources.values()):
        return ["lakeward", "boto3"]
    code = spec.transform.python or spec.transform.udfs or spec.sink.python or spec.packages
    return [] if code else None


def _check_python(session: SparkSession, stream: str, imports: list[str], folder: str, unstarted: Unstarted) -> None:
    """Run Python on an executor. Spark itself compares its version with the driver's."""

    def missing(_: int) -> list[str]:  # pickled by value, so it must not import lakeward
        import importlib.util
        from pathlib import Path

        wrong = [f"it has no package {name}" for name in imports if importlib.util.find_spec(name) is None]
        return wrong if not folder or Path(folder).is_dir() else [*wrong, f"{folder} (requirements:) is missing"]

    context = session.sparkContext
    try:
        [wrong] = _within(session, lambda: context.parallelize([0], 1).map(missing).collect(), unstarted)
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


def _within(session: SparkSession, work: Callable[[], _Answer], unstarted: Unstarted) -> _Answer:
    """Run a job in a thread, for at most `PATIENCE_S`.

    Raises:
        DependencyDown: the cluster gave no executor in that time.
    """
    from pyspark.util import InheritableThread

    tag, done = f"lakeward-check-{uuid4().hex}", Future[_Answer]()

    def run() -> None:
        session.sparkContext.addJobTag(tag)
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  # named boundary: raised again in the calling thread
            done.set_exception(error)

    thread = InheritableThread(target=run, daemon=True, name="check executors", session=session)
    thread.start()
    thread.join(PATIENCE_S)
    if thread.is_alive():
        session.sparkContext.cancelJobsWithTag(tag)
        if (reason := unstarted()) is not None:
            raise reason
        raise DependencyDown(
            f"The Spark cluster gave no executor in {PATIENCE_S:.0f} s",
            why=f"{session.sparkContext.master} has no worker with as many free cores and as much memory as one needs, "
            "or its workers cannot reach this machine",
            next="check the master's UI; executors: of the driver in conf/lakeward.yaml sets how large they are",
            code="LW-2207",
        )
    return done.result()


def _reason(error: Exception) -> str:
    """The line of an error's stack trace that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    named = [line for line in lines if "Exception" in line or "Error" in line]
    found = (causes[-1:] or named[:1] or lines[:1] or [type(error).__name__])[0]
    return found.removeprefix("Caused by: ")[:400]
