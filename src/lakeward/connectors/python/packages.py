"""Python packages of a generation: installed once into a folder named by their digest, and added to the Python path.

The folder is filled under a temporary name and renamed when it is complete. A package that the driver has in the same
version is not installed; another version is refused, because a process can import one version only. See docs/adr/0036.
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
_UNREACHABLE = re.compile(
    r"error sending request|Failed to fetch|Could not connect|timed out|network (?:connectivity|was disabled)",
    re.IGNORECASE,
)
_lock = threading.Lock()
_active: str | None = None


def active() -> str | None:
    """The digest of the stream packages in this process; None without any."""
    return _active


def folder_of(packages: Sequence[str], environments: Path) -> Path:
    """The folder of installed packages. It is specific to the Python version, as C extensions are."""
    return environments / f"{digest_of(packages)}-{sys.implementation.cache_tag}"


def install(stream: str, packages: Sequence[str], environments: Path) -> Path:
    """The folder with the packages; they are installed if it does not exist.

    Raises:
        SpecError: a package is not available, or conflicts with a version of the driver.
        DependencyDown: the package index does not answer.
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
            _log.info("installing packages", stream=stream, packages=len(missing), folder=str(folder))
            _install(stream, missing, target, Path(made))
        try:
            target.rename(folder)
        except OSError:
            if not folder.exists():  # otherwise another process installed them first
                raise
    return folder


def activate(session: SparkSession, stream: str, packages: Sequence[str] | None, environments: Path) -> None:
    """Add the packages of a stream to the path of this process and its Python workers.

    Raises:
        SpecError: the process has other stream packages already, or these are not available.
        DependencyDown: the package index does not answer.
    """
    global _active
    if not packages:
        return
    digest = digest_of(packages)
    with _lock:
        if _active not in (None, digest):
            raise SpecError(
                f"Stream {stream} needs other packages than its driver has",
                why="its driver has those of another stream, and a process imports one version of a package",
                next=f"give {stream} its own driver (resources: {{driver: {stream}}}), or both the same requirements:; "
                "then: lakeward deploy",
                code="LW-3158",
            )
        folder = str(install(stream, packages, environments))
        if _active is None:
            sys.path.append(folder)
            importlib.invalidate_caches()
        _active = digest
        workers = session.sparkContext.environment  # the environment of every Python worker started from now on
        if folder not in (paths := workers.get("PYTHONPATH", "").split(os.pathsep)):
            workers["PYTHONPATH"] = os.pathsep.join(path for path in (*paths, folder) if path)


def _missing(stream: str, packages: Sequence[str]) -> Iterator[str]:
    """The lines whose packages are not installed in the driver."""
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
            clashes.append(f"{name}=={here} (required: {version})")
    if clashes:
        raise SpecError(
            f"The packages of stream {stream} conflict with its driver's",
            why=f"the driver has {', '.join(clashes)}, and a process imports one version of a package",
            next=f"write the driver's versions into a file and lock again: {LOCK} --constraint FILE; then: "
            "lakeward deploy",
            code="LW-3156",
        )


def _install(stream: str, lines: Sequence[str], target: Path, folder: Path) -> None:
    requirements = folder / "requirements.txt"
    requirements.write_text("\n".join(lines) + "\n")
    # Wheels only: a source build runs foreign code, and its result is not reproducible.
    command = [
        _uv(stream), "pip", "install", "--target", str(target), "--python", sys.executable, "--require-hashes",
        "--no-deps", "--only-binary", ":all:", "--no-progress", "--color", "never", "-r", str(requirements),
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "UV_NO_VERIFY_HASHES"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _down(stream, f"uv did not finish within {INSTALL_S:.0f} s") from None
    if done.returncode == 0:
        return
    output = mask(" ".join(line.strip() for line in done.stderr.splitlines() if line.strip()))[-700:]
    if _UNREACHABLE.search(output):
        raise _down(stream, output)
    raise SpecError(
        f"Cannot install the packages of stream {stream}", why=output,
        next=f"correct its requirements file in python/, e.g. with: {LOCK}; then: lakeward deploy",
     code="LW-3154")  # fmt: skip


def _down(stream: str, why: str) -> DependencyDown:
    return DependencyDown(
        f"Cannot install the packages of stream {stream}: the package index does not answer", why=why,
        next="wait: the next start retries; or set UV_INDEX_URL to another index",
     code="LW-3155")  # fmt: skip


def _uv(stream: str) -> str:
    try:
        import uv

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        program = shutil.which("uv")
    if program is None:
        raise SpecError(
            f"Cannot install the packages of stream {stream}", why="the program uv is not installed",
            next="install it where deploy and drivers run: pip install uv",
         code="LW-3157")  # fmt: skip
    return program
