"""Every benchmark in one run, its history, and the page made of it: `make bench` and `make bench-quick`.

    python benchmarks/run_all.py [--only NAME,..] [--again] [--list]
    python benchmarks/run_all.py --quick

Each script of `bench_figures.py` runs in a process of its own, one after the other; what it prints, the machine and its
load before and after are one line of `benchmarks/history.jsonl`. A run that was interrupted goes on where it
was: what was measured at this commit is not measured again (`--again` does). A script that fails is recorded and named;
the others run. At the end `docs/explanation/benchmarks.md` and its plots are made of the newest line of each.

`--quick` measures a part of it with fewer rounds, in about five minutes, prints the figures and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bench_machine
from bench_figures import BENCHMARKS, Benchmark
from bench_history import HISTORY, Record, measured_at, read
from bench_page import text_lines, write_page

HERE = Path(__file__).parent
ROOT = HERE.parent
LIMIT_S = 3600


def main() -> int:
    """Measure, record, and write the page; 1 if a script failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="some of these, with commas between")
    parser.add_argument("--again", action="store_true", help="measure what was measured at this commit, too")
    parser.add_argument("--quick", action="store_true", help="a part, in five minutes; writes nothing")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--page", action="store_true", help="make the page of the history; measure nothing")
    given = parser.parse_args()
    if given.list:
        print(*(f"{each.name:20} {' '.join(each.command)}" for each in BENCHMARKS), sep="\n")
        return 0
    if given.page:
        return _page(read())
    chosen = _chosen(given.only)
    commit = bench_machine.commit(ROOT)
    if given.quick:
        records = [_measure(each, (*each.command, *each.quick), commit) for each in chosen if each.quick is not None]
        print(*text_lines(records), sep="\n")
        return int(any(each.failed for each in records))
    before = read()
    failed = []
    for number, each in enumerate(chosen, 1):
        if not given.again and measured_at(before, each.name, commit):
            print(f"[{number}/{len(chosen)}] {each.name}: measured at {commit} already", file=sys.stderr)
            continue
        print(f"[{number}/{len(chosen)}] {each.name}", file=sys.stderr, flush=True)
        record = _measure(each, each.command, commit)
        with HISTORY.open("a") as history:
            history.write(record.line())
        if record.failed:
            failed.append(each.name)
            print(f"{each.name} failed: {record.failed}", file=sys.stderr)
    _page(read())
    if failed:
        print(f"failed: {', '.join(failed)}; again with --only {','.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def _page(records: list[Record]) -> int:
    page = write_page(records)
    print(page.relative_to(ROOT))
    return 0


def _chosen(only: str | None) -> list[Benchmark]:
    names = [each.name for each in BENCHMARKS]
    wanted = only.split(",") if only else names
    if unknown := sorted(set(wanted) - set(names)):
        sys.exit(f"--only {','.join(unknown)}: there is no such benchmark; there are {', '.join(names)}")
    return [each for each in BENCHMARKS if each.name in wanted]


def _measure(benchmark: Benchmark, command: tuple[str, ...], commit: str) -> Record:
    """Run one script. What it prints on stderr is shown."""
    before, began = bench_machine.load(), time.monotonic()
    at = datetime.now(UTC).isoformat(timespec="seconds")
    result: dict[str, Any] | None = None
    failed = ""
    with _stack(benchmark.parts) as place:
        try:
            ran = subprocess.run(
                [sys.executable, str(HERE / command[0]), *command[1:], *place],
                stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False,
            )  # fmt: skip
            if ran.returncode:
                failed = f"exit code {ran.returncode}"
            else:
                result = json.loads(ran.stdout[ran.stdout.index("{") :])
        except subprocess.TimeoutExpired:
            failed = f"not done after {LIMIT_S} s"
        except ValueError as error:
            failed = f"it printed no JSON: {error}"
    return Record(
        name=benchmark.name, at=at, commit=commit, command=command, seconds=round(time.monotonic() - began),
        load=(before, bench_machine.load()), machine=bench_machine.describe(), result=result, failed=failed,
    )  # fmt: skip


@contextmanager
def _stack(parts: str) -> Iterator[list[str]]:
    """A stack for one script, and the arguments that name it; nothing for a script that starts its own."""
    if not parts:
        yield []
        return
    folder = Path(tempfile.mkdtemp(prefix="lakeward-bench-"))
    folder.chmod(0o755)  # the server runs as a user of its own
    place = ["--home", str(folder / "home"), "--project", str(folder / "project")]
    (folder / "project" / "conf" / "streams").mkdir(parents=True)
    command = [sys.executable, "-m", "lakeward", "stack"]
    try:
        subprocess.run([*command, "up", "--only", parts, "--no-deploy", *place], stdout=sys.stderr, check=True)
        yield place[:2]
    finally:
        subprocess.run([*command, "down", *place], stdout=sys.stderr, check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
