"""Lakeward's own jars: `LinkLogStore`, a Delta log store in which a local table's version is committed at most once,
`Patterns`, which compiles regular expressions as Spark does, and `LoginFile`, the login of a REST catalog.

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

SOURCE = Path(__file__).with_name("own") / "LinkLogStore.java"
JAR = SOURCE.with_name("lakeward-delta.jar")
CLASS = "io.lakeward.LinkLogStore"
PATTERNS_SOURCE = SOURCE.with_name("Patterns.java")
PATTERNS_JAR = SOURCE.with_name("lakeward-patterns.jar")
PATTERNS_CLASS = "io.lakeward.Patterns"
"""Base64 patterns on stdin, a line each; answers on stdout."""
LOGIN_SOURCE = SOURCE.with_name("LoginFile.java")
LOGIN_JAR = SOURCE.with_name("lakeward-login.jar")
LOGIN_CLASS = "io.lakeward.LoginFile"
LOGIN_PROPERTY = "rest.auth.lakeward.file"
"""Property of the catalog: the path of the login file."""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can store


def spark_conf() -> dict[str, str]:
    """Spark conf of an application that writes local Delta tables.

    It uses `spark.jars` and not the class path, because the class archive is valid for its original class path only.
    """
    return {"spark.jars": str(JAR), "spark.delta.logStore.file.impl": CLASS}


def build(into: Path = JAR, source: Path = SOURCE) -> Path:
    """Compile a source and put its classes into a jar.

    Raises:
        LakewardError: it does not compile; `why` has the compiler's message.
    """
    bundled = fitting.pyspark_jars()
    compiler = os.pathsep.join(str(jar) for jar in (*bundled.glob("janino-*"), *bundled.glob("commons-compiler-*")))
    needed = [*bundled.glob("hadoop-client-api-*.jar"), *places.spark_classpath()]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(find_java().binary), "-cp", compiler, "org.codehaus.commons.compiler.samples.CompilerDemo",
            "-classpath", os.pathsep.join(str(jar) for jar in needed), "-d", folder, str(source),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        classes = sorted(Path(folder).rglob("*.class"))
        if done.returncode != 0 or not classes:
            raise LakewardError(
                f"{source.name} does not compile",
                why=(done.stderr or done.stdout).strip()[-2000:],
                next="correct the source, then: python -m lakeward.jars own",
                code="LW-7213",
            )
        with zipfile.ZipFile(into, "w") as jar:
            for file in classes:
                jar.writestr(zipfile.ZipInfo(file.relative_to(folder).as_posix(), _EPOCH), file.read_bytes())
    return into
