"""Two source trees side by side: each with a stack of its own, measured in turns ABBA by the CPU of its processes."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parents[1] / "src"


class Tree:
    """One source tree with a project and a home of its own.

    Attributes:
        home, project: its folders, below the folder given.
        environment: of its processes; `PYTHONPATH` is the tree's.
    """

    def __init__(
        self, source: Path, folder: Path, files: dict[str, str], parts: str, python: Path | None = None
    ) -> None:
        """Start the stack.

        Args:
            source: the `src` folder of the tree.
            files: the project's files by their paths.
            parts: of the stack, as `stack up --only` takes them.
            python: of the tree's own environment; without it this process' own.
        """
        self.home, self.project = folder / "home", folder / "project"
        self.environment = {**os.environ, "PYTHONPATH": str(source)}
        self._python = str(python or sys.executable)
        for name, text in files.items():
            path = self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.project / "conf" / "streams").mkdir(parents=True, exist_ok=True)
        self.command("stack", "up", "--only", parts)

    def command(self, *words: str) -> str:
        """Run a command of this tree; what it printed on stdout.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        where = ["--home", str(self.home), "--project", str(self.project)]
        command = [self._python, "-m", "lakeward", *words, *where]
        ran = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, text=True, check=False)
        if ran.returncode:
            sys.stderr.write(ran.stdout)
            ran.check_returncode()
        return ran.stdout

    def close(self) -> None:
        """End the stack."""
        self.command("stack", "down")

    def cpu(self, also: Iterable[int] = (), part: str = "") -> float:
        """CPU seconds of what runs from its home, children that ended included.

        Args:
            also: processes that do not have the home in their command line.
            part: count only processes that have this in their command line, and their children.
        """
        mine: dict[int, psutil.Process] = {}
        for each in psutil.process_iter():
            with suppress(psutil.Error):
                line = " ".join(each.cmdline())
                if each.pid in also or (str(self.home) in line and part in line):
                    mine |= {process.pid: process for process in (each, *each.children(recursive=True))}
        total = 0.0
        for process in mine.values():
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total


def in_turns(names: Sequence[str], pairs: int, once: Callable[[str], dict[str, float]]) -> dict[str, list[float]]:
    """Ratios of the second to the first by what was measured, one for each pair; the order changes with each pair."""
    first, second = names
    found: dict[str, list[float]] = {}
    for pair in range(pairs):
        took = {name: once(name) for name in (names if pair % 2 else reversed(names))}
        for what, seconds in took[first].items():
            found.setdefault(what, []).append(took[second][what] / seconds)
        shown = {name: {what: round(seconds, 2) for what, seconds in each.items()} for name, each in took.items()}
        print(shown, file=sys.stderr, flush=True)
    return found


def report(ratios: dict[str, list[float]], **given: Any) -> None:
    """Print the quartiles of each figure, and the machine, as one JSON object."""
    quartiles = {
        what: dict(zip(("low", "median", "high"), (round(q, 2) for q in statistics.quantiles(each, n=4)), strict=True))
        for what, each in ratios.items()
    }
    machine = {"cores": os.cpu_count(), "platform": platform.platform(), "load": os.getloadavg()[0]}
    print(json.dumps({**given, "other_by_this": quartiles, "machine": machine}, indent=2))
