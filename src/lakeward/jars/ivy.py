"""Jar download with the Ivy of pyspark: needs Java only, no Maven.

Ivy caches its downloads, so an interrupted download resumes. The result is assembled in a temporary folder, verified,
and renamed: a folder of jars is complete and verified, or does not exist.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from lakeward.jars import check, fitting, places
from lakeward.jars.java import find_java
from lakeward.platform.errors import DependencyDown, LakewardError, Refused, expect

IVY_FILE = Path(__file__).with_name("ivy.xml")
PATTERN = "[conf]/[artifact]-[revision].[ext]"
_SHOWN = ("downloading ", ":: resolving", ":: retrieving", "\t[FAILED", "\t\t::")


def ensure(progress: Callable[[str], None] = lambda line: None) -> Path:
    """The folder with every jar present and verified; missing jars are downloaded.

    Raises:
        LakewardError: a jar has another digest, or could not be downloaded.
    """
    at = places.folder()
    if check.missing(at):
        fetch(at, progress)
    else:
        check.verify(at)
    return at


def fetch(target: Path, progress: Callable[[str], None] = lambda line: None) -> Path:
    """Download and verify the jars, and move them to `target`.

    Args:
        target: the folder for `spark/` and `kafka/`; an incomplete one is replaced.
        progress: called with one line of text for each file.

    Raises:
        DependencyDown: a repository could not be reached.
        Refused: a downloaded jar is not the reviewed one, or `target` contains other files; nothing was changed.
    """
    _refuse_other_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as name:
        fresh = Path(name) / "jars"
        retrieve(fresh, progress)
        put_in_place(fresh, target)
    return target


def retrieve(into: Path, progress: Callable[[str], None]) -> None:
    """Run Ivy once, without verifying the result."""
    java = find_java()
    engine = next(iter(sorted(fitting.pyspark_jars().glob("ivy-*.jar"))), None)
    if engine is None:
        raise LakewardError(
            "pyspark has no Ivy",
            why=f"there is no ivy-*.jar in {fitting.pyspark_jars()}",
            next="uv sync",
            code="LW-7207",
        )
    cache = places.cache() / "ivy"
    cache.mkdir(parents=True, exist_ok=True)
    command = [
        str(java.binary), "-cp", str(engine), "org.apache.ivy.Main",
        "-ivy", str(IVY_FILE), "-cache", str(cache), "-confs", *places.SETS,
        "-types", "jar", "bundle", "-retrieve", f"{into}/{PATTERN}",
    ]  # fmt: skip
    tail: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in expect(process.stdout, "the pipe from Ivy"):
            tail = [*tail[-60:], line.rstrip()]
            if line.startswith(_SHOWN[0]):
                progress(line.split()[1].rsplit("/", 1)[-1])
    if process.returncode != 0 or not into.is_dir():
        raise _failure("\n".join(tail))


def put_in_place(fresh: Path, target: Path) -> None:
    """Verify `fresh` and rename it to `target`.

    Raises:
        Refused: a jar is not the reviewed one; `target` is unchanged.
    """
    check.verify(fresh)
    # Another process may have finished the same download in the meantime; its result is equal.
    if target.exists() and not check.missing(target):
        return
    if target.exists():
        _refuse_other_folder(target)
        shutil.rmtree(target)
    fresh.replace(target)


def _refuse_other_folder(target: Path) -> None:
    """Refuse a folder with other files: an incomplete folder is deleted, and `LAKEWARD_JARS` may name any folder."""
    other = check.other_than_jars(target)
    if other is not None:
        raise Refused(
            "The folder of the jars has other files; nothing was changed",
            why=f"{other} is not a jar of Lakeward, and an incomplete folder is replaced as a whole",
            next="name a new or empty folder: LAKEWARD_JARS=DIR python -m lakeward.jars",
            code="LW-7208",
        )


def _failure(output: str) -> LakewardError:
    lines = [line.strip() for line in output.splitlines() if line.strip(" :\t")]
    relevant = [
        line for line in lines if "FAILED" in line or "not found" in line or "Exception" in line or "PKIX" in line
    ]
    why = "; ".join(dict.fromkeys(relevant[:3] or lines[-3:]))
    if "PKIX" in output or "SSLHandshake" in output:
        return DependencyDown(
            "The jars could not be fetched: Java does not trust the repository's certificate",
            why=why,
            next="if a corporate proxy intercepts TLS, give Java its CA, e.g. "
            "export JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=/etc/ssl/certs/java/cacerts, or "
            "keytool -importcert -cacerts -file your-ca.pem -alias your-ca; then: python -m lakeward.jars",
            code="LW-7209",
        )
    return DependencyDown(
        "The jars could not be fetched",
        why=why,
        next="check the network and proxy (Java reads JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=.. -Dhttps.proxyPort=..), "
        "then: python -m lakeward.jars   (it resumes)",
        code="LW-7206",
    )
