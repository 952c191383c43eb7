"""When the checking process is restarted, and a digest of the code and addresses a checker was started with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Project
from lakeward.spec.model.settings import Checker
from lakeward.spec.read.loader import load_settings

_CODE = Path(__file__).parents[2]
_PACKAGES = ("great-expectations", "pyspark", "pyiceberg")


@dataclass(frozen=True)
class ProcessUsage:
    """The age and usage of a checking process.

    Attributes:
        rss: its resident memory in bytes.
    """

    age_s: float
    runs: int
    rss: int


def due(used: ProcessUsage, limits: Checker) -> str | None:
    """Why it has to be restarted before the next run, as a clause; None when it has not."""
    if used.rss > limits.max_memory.bytes:
        return f"it holds {used.rss >> 20} MB, more than {limits.max_memory} (checker.max_memory)"
    if used.runs >= limits.max_runs:
        return f"it has worked on {used.runs} runs (checker.max_runs)"
    if used.age_s > limits.max_age.timedelta.total_seconds():
        return f"it is {used.age_s / 3600:.1f} h old, more than {limits.max_age} (checker.max_age)"
    return None


def limits(project: Project) -> Checker:
    """The project's current limits; the defaults if its settings are invalid, which every run reports."""
    try:
        return load_settings(project).checker
    except SpecError:
        return Checker()


def code_digest(runtime_file: Path) -> str:
    """Digest of what a checker reads once, at its start: Lakeward's code, versions of its engines, addresses."""
    found = hashlib.sha256()
    for file in sorted(_CODE.rglob("*.py")):
        facts = file.stat()
        found.update(f"{file} {facts.st_mtime_ns} {facts.st_size}\n".encode())
    for package in _PACKAGES:
        try:
            found.update(f"{package} {version(package)}\n".encode())
        except PackageNotFoundError:  # during an upgrade
            found.update(f"{package} gone\n".encode())
    found.update(runtime_file.read_bytes() if runtime_file.exists() else b"")
    return found.hexdigest()
