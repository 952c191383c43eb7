"""Packages of a generation: installed into a folder named by their digest, once, and on the path of whoever needs them.

The folder is complete when it has its name: it is filled under another one. What a driver has already in the same
version is not installed again; another version of it is refused, for one process holds one. See docs/adr/0036.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.spec.python.packages import LOCK, digest_of, pinned
from lakeward.telemetry.mask import mask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger(__name__)

INSTALL_S = 900.0
_AWAY = re.compile(
    r"error sending request|Failed to fetch|Could not connect|timed out|network (?:connectivity|was disabled)",
    re.IGNORECASE,
)
_lock = threading.Lock()
_active: str | None = None


def active() -> str | None:
    """The digest of the packages this process has; None while it has none of a stream's."""
    return _active


def folder_of(packages: Sequence[str], environments: Path) -> Path:
    """Where they stand once they are installed: for this Python, for its C extensions are."""
    return environments / f"{digest_of(packages)}-{sys.implementation.cache_tag}"


def install(stream: str, packages: Sequence[str], environments: Path) -> Path:
    """The folder with the packages; installed, if that was never done here.

    Raises:
        SpecError: one is not to be had, or is another version of what the driver has.
        DependencyDown: the index does not answer.
    """
    folder = folder_of(packages, environments)
    if folder.exists():
        return folder
    missing = list(_missing(stream, packages))
    environments.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=environments, prefix=".") as made:
        target = Path(made, "packages")
        target.mkdir()
        if missing:
            _log.info("packages are installed", stream=stream, packages=len(missing), folder=str(folder))
            _install(stream, missing, target, Path(made))
        try:
            target.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was first
                raise
    return folder


def activate(session: SparkSession, stream: str, packages: Sequence[str] | None, environments: Path) -> None:
    """Let this process and its Python workers import the packages of a stream.

    Raises:
        SpecError: another stream's packages are here already, or these cannot be had.
        DependencyDown: the index does not answer.
    """
    global _active
    if not packages:
        return
    digest = digest_of(packages)
    with _lock:
        if _active not in (None, digest):
            raise SpecError(
                f"Stream {stream} needs other packages than its driver has",
                why="another stream of the driver brought its own, and one process imports one version of a package",
                next=f"give {stream} a driver of its own (resources: {{driver: {stream}}}), or both the same "
                "requirements:, then: lakeward deploy",
                code="LW-3158",
            )
        folder = str(install(stream, packages, environments))
        if _active is None:
            sys.path.append(folder)
            importlib.invalidate_caches()
        _active = digest
        around = session.sparkContext.environment  # of every Python worker that is started from now on
        if folder not in (paths := around.get("PYTHONPATH", "").split(os.pathsep)):
            around["PYTHONPATH"] = os.pathsep.join(path for path in (*paths, folder) if path)


def _missing(stream: str, packages: Sequence[str]) -> Iterator[str]:
    """Of the lines those that are not installed here anyway."""
    clashes = []
    for line in packages:
        name, version, requirement = pinned(line)
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        try:
            here = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield line
            continue
        if here != version:
            clashes.append(f"{name}=={here} (asked for: {version})")
    if clashes:
        raise SpecError(
            f"The packages of stream {stream} do not go with its driver's",
            why=f"the driver has {', '.join(clashes)}, and one process imports one version of a package",
            next=f"put the driver's versions into a file and lock with it: {LOCK} --constraint FILE; then: "
            "lakeward deploy",
            code="LW-3156",
        )


def _install(stream: str, lines: Sequence[str], target: Path, around: Path) -> None:
    wanted = around / "requirements.txt"
    wanted.write_text("\n".join(lines) + "\n")
    # Of built packages only: what builds one runs code of strangers, and gives other files on another day.
    command = [
        _uv(stream), "pip", "install", "--target", str(target), "--python", sys.executable, "--require-hashes",
        "--no-deps", "--only-binary", ":all:", "--no-progress", "--color", "never", "-r", str(wanted),
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "UV_NO_VERIFY_HASHES"}
    try:
        done = subprocess.run(
            command, cwd=around, env=environment, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _down(stream, f"uv did not come to an end within {INSTALL_S:.0f} s") from None
    if done.returncode == 0:
        return
    said = mask(" ".join(line.strip() for line in done.stderr.splitlines() if line.strip()))[-700:]
    if _AWAY.search(said):
        raise _down(stream, said)
    raise SpecError(
        f"The packages of stream {stream} cannot be installed", why=said,
        next=f"correct its requirements file in python/, best by: {LOCK}; then: lakeward deploy",
     code="LW-3154")  # fmt: skip


def _down(stream: str, why: str) -> DependencyDown:
    return DependencyDown(
        f"The index of Python packages does not answer; stream {stream} needs it once", why=why,
        next="it is asked again at the next start; UV_INDEX_URL names another index",
     code="LW-3155")  # fmt: skip


def _uv(stream: str) -> str:
    try:
        import uv

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise SpecError(
            f"The packages of stream {stream} cannot be installed", why="the program uv is not here",
            next="install it where deploy and drivers run: pip install uv",
         code="LW-3157")  # fmt: skip
    return found
