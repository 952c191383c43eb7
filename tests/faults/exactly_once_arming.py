"""Stops one stream at one step of one batch: a failpoint of the product, or a hook inside the JVM.

| step | where the stream waits |
|---|---|
| `before-offset-log` | Spark's `OffsetSeqLog`, in `CheckpointFileManager.createTempFile` of `offsets/N` |
| `after-offset-log` | the same, once `renameTempFile` has put `offsets/N` there |
| `mid-write` | Hadoop's `FileSystem.create` of the batch's first data file, in a Spark task |
| `after-files` | the same call for Iceberg's manifest of the batch, or for `_SUCCESS` beside the files of other sinks |
| `after-stage`, `before-publish`, `after-publish`, `before-send` | `failpoints.hit` in the sink's writer |
| `before-commit-log` | `failpoints.hit("before-return")` in `BatchFunction`: landed, nobody told |
| `after-record` | `createTempFile` of `commits/N`, after the registry has the batch |
| `after-commit-log` | `renameTempFile` has put `commits/N` there |
"""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exactly_once_streams import Kind

from lakeward import jars
from lakeward.spec.model.driver_conf import QUICK

_SOURCE = Path(__file__).parent / "pausing" / "Pausing.java"
_IN_PYTHON = {"before-commit-log": "before-return"}
_CHECKPOINT = {
    "before-offset-log": ("before", r"/offsets/\.(\d+)\."),
    "after-offset-log": ("after", r"/offsets/(\d+) "),
    "after-record": ("before", r"/commits/\.(\d+)\."),
    "after-commit-log": ("after", r"/commits/(\d+) "),
}


PLAIN = {
    # A stream that waits holds its task and its worker; the others need theirs.
    "spark.master": "local[32,4]",  # as with the product, a task is tried again
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": f"{QUICK} -Diceberg.worker.num-threads=32",
}
CONF = {
    **PLAIN,
    "spark.hadoop.fs.file.impl": "lakeward.faults.Pausing$Tables",
    "spark.sql.streaming.checkpointFileManagerClass": "lakeward.faults.Pausing$Checkpoints",
}
"""Spark conf of a driver whose streams can be stopped one by one."""


def hooks(folder: Path, spark_jars: Path) -> Path:
    """The jar with the hooks of the JVM, below `folder`; needs a JDK, not only a Java runtime."""
    made = folder / "pausing.jar"
    if not made.exists():
        known = os.pathsep.join([f"{jars.pyspark_jars()}/*", *map(str, jars.spark_classpath(spark_jars))])
        classes = folder / "classes"
        classes.mkdir(parents=True, exist_ok=True)
        javac = jars.find_java().binary.with_name("javac")
        subprocess.run([javac, "-proc:none", "-cp", known, "-d", classes, _SOURCE], check=True, timeout=300)
        with zipfile.ZipFile(made, "w") as archive:
            for file in classes.rglob("*.class"):
                archive.write(file, file.relative_to(classes))
    return made


@dataclass(frozen=True)
class Armed:
    """One stream that is to stop: `marker` appears when it has."""

    stream: str
    step: str
    batch: int
    marker: Path


class Arms:
    """What is armed, in one folder that the driver's environment names."""

    def __init__(self, folder: Path, spark_jars: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._hooks = hooks(folder.parent, spark_jars)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a driver is started with."""
        return {
            "LAKEWARD_FAILPOINT_FOLDER": str(self.folder), "LAKEWARD_FAILPOINTS_ALLOWED": "1",
            # Behind Spark's own jars: before them it would cost the JVM its archive of classes.
            "SPARK_DIST_CLASSPATH": str(self._hooks),
        }  # fmt: skip

    def arm(self, wanted: Mapping[str, tuple[Kind, str, int, Path]]) -> dict[str, Armed]:
        """Arm streams, all at once.

        Args:
            wanted: stream -> kind, step, least batch, folder of its table (of lake and files).
        """
        self.disarm()
        rules, found = [], {}
        for stream, (kind, step, batch, table) in wanted.items():
            if (rule := _rule(kind, step, stream, table)) is not None:
                marker = self.folder / f"{stream}.{step}.reached"
                rules.append("\t".join([*rule, str(batch), str(marker)]))
            else:
                armed = self.folder / f"{stream}.{_IN_PYTHON.get(step, step)}"
                armed.write_text(str(batch))
                marker = armed.with_name(f"{armed.name}.reached")
            found[stream] = Armed(stream, step, batch, marker)
        written = self.folder / "jvm.rules.new"
        written.write_text("\n".join(rules))
        written.rename(self.folder / "jvm.rules")
        return found

    def disarm(self) -> None:
        """Nothing stops any more; what waits inside Python goes on."""
        for file in self.folder.iterdir():
            file.unlink()


def _rule(kind: Kind, step: str, stream: str, table: Path) -> tuple[str, str] | None:
    """Event and expression of a hook inside the JVM; None where Python has the step."""
    own, place = re.escape(stream), re.escape(str(table))
    if step in _CHECKPOINT:
        event, inside = _CHECKPOINT[step]
        return event, f"/{own}/1{inside}"
    if step == "mid-write":
        if kind.sink == "postgres":
            return "create", f"/lakeward-copy-.*/part-.* pool={own}$"
        return "create", f"{place}/data/" if kind.sink == "iceberg" else f"{place}/.*part-"
    if step == "after-files":
        if kind.sink == "iceberg":
            return "create", f"{place}/metadata/.*-m\\d+\\.avro "
        where = "/lakeward-copy-.*" if kind.sink == "postgres" else f"{place}/_staging/.*"
        return "create", f"{where}/_SUCCESS .*{own}"
    return None
