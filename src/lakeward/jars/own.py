"""The one jar that is our own: `LinkLogStore`, by which a Delta table's version is taken once on a local folder.

Its source stands beside it. `python -m lakeward.jars own` compiles it again, with the compiler that Spark itself brings
(Janino): only Java is needed, and the same source gives the same bytes.
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
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment a zip file knows


def spark_conf() -> dict[str, str]:
    """Conf of a Spark application that writes Delta tables of this machine.

    `spark.jars` and not the class path: the class archive holds only if the class path is the one it was made with.
    """
    return {"spark.jars": str(JAR), "spark.delta.logStore.file.impl": CLASS}


def build(into: Path = JAR) -> Path:
    """Compile the source and put the class into a jar.

    Raises:
        LakewardError: it does not compile; says what the compiler said.
    """
    bundled = fitting.pyspark_jars()
    compiler = os.pathsep.join(str(jar) for jar in (*bundled.glob("janino-*"), *bundled.glob("commons-compiler-*")))
    needed = [*bundled.glob("hadoop-client-api-*.jar"), *places.spark_classpath()]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(find_java().binary), "-cp", compiler, "org.codehaus.commons.compiler.samples.CompilerDemo",
            "-classpath", os.pathsep.join(str(jar) for jar in needed), "-d", folder, str(SOURCE),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        made = sorted(Path(folder).rglob("*.class"))
        if done.returncode != 0 or not made:
            raise LakewardError(
                f"{SOURCE.name} does not compile", why=(done.stderr or done.stdout).strip()[-2000:], code="LW-7213"
            )
        with zipfile.ZipFile(into, "w") as jar:
            for each in made:
                jar.writestr(zipfile.ZipInfo(each.relative_to(folder).as_posix(), _EPOCH), each.read_bytes())
    return into
