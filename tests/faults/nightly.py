"""The night: every campaign and sweep with seeds of this night, the planted bugs, and Airflow's parts taken away.

A night has a base, drawn at random and printed; every seed of its campaigns follows from it. Its folder holds one file
of JSON lines a campaign, and `night.json`: the base, and the exit code of each step that ended. An interrupted night
goes on where it was, each campaign at the trial it was in; after the last step the next call begins a new night. Exit
code 0 only if every step held.

    python tests/faults/nightly.py [--folder .lakeward/nightly] [--only NAME,NAME]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from campaign import ROOT
from publications import TRACED, WIDER

FAULTS = ROOT / "tests" / "faults"
BASES = 1_000_000
"""Bases are below."""

PARTS: Mapping[str, tuple[str, ...]] = {
    "driver": ("tests/spark/driver",),
    "faults": ("tests/faults",),
    "rest": ("tests", "--ignore", "tests/spark/driver", "--ignore", "tests/faults"),
}
"""The campaigns that are tests, in steps of less than an hour or so: an interrupted step begins again."""


@dataclass(frozen=True)
class Step:
    """One command of the night.

    Attributes:
        name: of its result, and of its file of results.
        words: after the Python interpreter.
        env: variables that are added to our environment.
    """

    name: str
    words: tuple[str, ...]
    env: Mapping[str, str]


def steps(base: int, folder: Path) -> list[Step]:
    """What a night does, the short steps first."""

    def span(many: int) -> str:
        return f"{base}-{base + many - 1}"

    def script(name: str, *words: str, results: bool = True) -> Step:
        kept = ("--results", str(folder / f"{name}.jsonl")) if results else ()
        return Step(name, (str(FAULTS / f"{name.partition(' ')[0]}.py"), *words, *kept), {})

    def tests(name: str, *words: str, **env: str) -> Step:
        report = f"--junitxml={folder / f'{name}.xml'}"
        return Step(name, ("-m", "pytest", *words, report, "--durations", "25"), env)

    return [
        *(
            tests(f"tests {part}", *words, "-m", "campaign or seeded", "--numprocesses", "2", LAKEWARD_SEED=str(base))
            for part, words in PARTS.items()
        ),
        # The gate interprets the queries of these: here they are compiled, as in production.
        *(
            tests(
                f"compiled {part.rpartition('/')[2]}",
                f"tests/{part}",
                "-m",
                "not campaign and not seeded",
                "--numprocesses",
                "2",
                LAKEWARD_SEED=str(base),
            )
            for part in ("spark/quality", "spark/tables", "spark/connectors", "spark/driver", "faults")
        ),
        tests("matrix", "tests/spark/quality/test_equality.py", LAKEWARD_MATRIX_SEED="whole"),
        tests("odd cells", "tests/spark/quality/test_odd.py", LAKEWARD_MATRIX_SEED="whole"),
        script("schedules", "--first", str(base // 100 * 100)),
        script("schedules planted", "--planted", results=False),
        script("real_schedules", "--first", str(base)),
        script("rest_schedules", "--first", str(base), "--seeds", "60"),
        script("rest_schedules handlers", "--server", "handlers", "--first", str(base), "--seeds", "30"),
        script("publications planted", "--planted", results=False),
        script("publications", "--first", str(WIDER + base % 700), "--seeds", "100"),
        script("publications v3", "--first", str(TRACED + base), "--seeds", "20"),
        script("maintenance planted", "--planted", results=False),
        script("maintenance", "--first", str(base)),
        script("campaign", "--seeds", span(10)),
        script("exactly_once", "--seeds", span(45), "--rest", span(5)),
        script("exactly_once rest", "--on", "rest", "--seeds", span(9), "--rest", span(1), "--kinds", "zombie"),
        script("delta_s3_races", "--seed", str(base)),
        script("duplicates", "--seeds", span(200), "--heavy", str(base + 9)),
        script("kills", "--seeds", span(50)),
        script("kills_light", "--seeds", span(200)),
        script("parts"),
        Step("soak", (str(FAULTS / "soak.py"), "--results", str(folder / "soak.json")), {}),
    ]


class Night:
    """A night's folder.

    Args:
        folder: where nights are kept, each below its base.
    """

    def __init__(self, folder: Path) -> None:
        states = sorted(folder.glob("*/night.json"), key=lambda file: file.stat().st_mtime)
        state = json.loads(states[-1].read_text()) if states else {"over": True}
        if state.get("over"):
            base = random.SystemRandom().randrange(BASES)
            state = {"base": base, "began": datetime.now(UTC).isoformat(timespec="seconds"), "steps": {}}
        self.base: int = state["base"]
        self.folder = folder / str(self.base)
        self._state = state
        self.folder.mkdir(parents=True, exist_ok=True)
        self._keep()

    def run(self, wanted: Sequence[Step], *, whole: bool) -> list[str]:
        """Run what has not ended yet; the names of those that failed.

        Args:
            whole: whether the night is over after them.
        """
        done: dict[str, int] = self._state["steps"]
        for step in wanted:
            if step.name in done:
                continue
            began = time.monotonic()
            print(f"== {step.name}: {' '.join(step.words)}", flush=True)
            ended = subprocess.run([sys.executable, *step.words], cwd=ROOT, env={**os.environ, **step.env}, check=False)
            done[step.name] = ended.returncode
            self._keep()
            print(f"== {step.name}: exit code {ended.returncode} after {time.monotonic() - began:.0f} s", flush=True)
        failed = [step.name for step in wanted if done[step.name]]
        self._state["over"] = whole
        self._keep()
        return failed

    def _keep(self) -> None:
        (self.folder / "night.json").write_text(json.dumps(self._state, indent=1) + "\n")


def main(argv: list[str] | None = None) -> int:
    """Go on with the night, or begin one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / ".lakeward" / "nightly")
    parser.add_argument("--only", default="", help="steps by name, with commas between")
    options = parser.parse_args(argv)
    night = Night(options.folder.resolve())
    print(f"night {night.base} in {night.folder}", flush=True)
    every = steps(night.base, night.folder)
    names = [name for name in options.only.split(",") if name]
    if unknown := set(names) - {step.name for step in every}:
        parser.error(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(step.name for step in every)}")
    failed = night.run([step for step in every if not names or step.name in names], whole=not names)
    print(f"night {night.base}: {'all held' if not failed else 'did not hold: ' + ', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
