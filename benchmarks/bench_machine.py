"""What figures depend on: the machine, its load, and the versions of what is measured."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil

PACKAGES = ("pyspark", "pyiceberg", "great-expectations", "duckdb", "pyarrow")


def commit(root: Path) -> str:
    """The commit that is checked out; with a plus sign if a tracked file of the product or of a benchmark differs."""
    at = _git(root, "rev-parse", "--short=8", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks", "uv.lock")
    return at + ("+" if changed else "")


def load() -> float:
    """Processes that ran or waited for a core, over the last minute."""
    return round(os.getloadavg()[0], 1)


def describe() -> dict[str, str | int]:
    """The machine, and versions of the measured libraries."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _git(root: Path, *words: str) -> str:
    ran = subprocess.run(["git", "-C", str(root), *words], stdout=subprocess.PIPE, text=True, check=False)
    return ran.stdout.strip()
