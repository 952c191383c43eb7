"""Lakeward's own jars: `LinkLogStore` and `S3LogStore`, Delta log stores in which a version is committed at most once,
`JsonReader`, which reads a JSON record in one pass, `Patterns`, which compiles regular expressions as Spark does, and
`LoginFile`, the login of a REST catalog.

The sources are in the same package. `python -m lakeward.jars own` compiles them with the compiler that Spark includes
(Janino): it needs Java only, and the same source gives the same bytes.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

from lakeward.jars import fitting, places
from lakeward.jars.java import find_java
from lakeward.platform.errors import LakewardError

_FOLDER = Path(__file__).with_name("own")
JAR = _FOLDER / "lakeward-delta.jar"
CLASS = "io.lakeward.LinkLogStore"
S3_CLASS = "io.lakeward.S3LogStore"
READER_JAR = _FOLDER / "lakeward-json.jar"
PATTERNS_JAR = _FOLDER / "lakeward-patterns.jar"
PATTERNS_CLASS = "io.lakeward.Patterns"
"""Base64 patterns on stdin, a line each; answers on stdout."""
LOGIN_JAR = _FOLDER / "lakeward-login.jar"
LOGIN_CLASS = "io.lakeward.LoginFile"
LOGIN_PROPERTY = "rest.auth.lakeward.file"
"""Property of the catalog: the path of the login file."""
SOURCES = {
    JAR: ("LinkLogStore.java", "S3LogStore.java"),
    READER_JAR: ("JsonReader.java", "JsonNumbers.java", "JsonTimes.java", "PatternReader.java"),
    PATTERNS_JAR: ("Patterns.java",),
    LOGIN_JAR: ("LoginFile.java",),
}
"""Jar -> its sources, in the same folder."""
_COMPILED_WITH = (
    "hadoop-client-*.jar", "slf4j-api-*.jar", "spark-*.jar", "jackson-core-*.jar", "scala-library-*.jar",
    "json4s-*.jar", "kryo-*.jar",
)  # fmt: skip
"""Jars of Spark that the sources name, and those that the compiler asks for because of them."""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can store


def libraries() -> tuple[Path, ...]:
    """The own jars of every Spark application, in its driver and its executors."""
    return JAR, READER_JAR


def spark_conf() -> dict[str, str]:
    """Spark conf of every Spark application: the own jars, and the log stores of Delta tables.

    It uses `spark.jars` and not the class path, because the class archive is valid for its original class path only.
    """
    return {
        "spark.jars": ",".join(str(jar) for jar in libraries()),
        "spark.delta.logStore.file.impl": CLASS,
        "spark.delta.logStore.s3a.impl": S3_CLASS,
    }


def build(jar: Path, into: Path | None = None) -> Path:
    """Compile the sources of a jar and put their classes into it.

    Args:
        jar: one of `SOURCES`.
        into: write this file instead.

    Raises:
        LakewardError: they do not compile; `why` has the compiler's message.
    """
    into, sources = into or jar, [_FOLDER / name for name in SOURCES[jar]]
    bundled = fitting.pyspark_jars()
    compiler = os.pathsep.join(str(jar) for jar in (*bundled.glob("janino-*"), *bundled.glob("commons-compiler-*")))
    needed = [*(found for each in _COMPILED_WITH for found in sorted(bundled.glob(each))), *places.spark_classpath()]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(find_java().binary), "-cp", compiler, "org.codehaus.commons.compiler.samples.CompilerDemo",
            "-classpath", os.pathsep.join(str(jar) for jar in needed), "-d", folder, *map(str, sources),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        classes = sorted(Path(folder).rglob("*.class"))
        if done.returncode != 0 or not classes:
            raise LakewardError(
                f"{jar.name} does not compile",
                why=(done.stderr or done.stdout).strip()[-2000:],
                next="correct the source, then: python -m lakeward.jars own",
                code="LW-7213",
            )
        with zipfile.ZipFile(into, "w") as archive:
            for file in classes:
                archive.writestr(zipfile.ZipInfo(file.relative_to(folder).as_posix(), _EPOCH), file.read_bytes())
    return into
