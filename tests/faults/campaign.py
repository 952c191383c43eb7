"""The long campaign: `lakeward demo --check` once a seed, the driver killed at another moment each time.

One JSON line a seed goes to the results file as soon as it is known; a seed that stands there already is not run
again, so an interrupted campaign goes on where it was. Exit code 0 only if every seed asked for held every claim.

    python tests/faults/campaign.py --seeds 1-10
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "support"))  # of the tests, which alone have it on their path
RESULTS = ROOT / "docs" / "explanation" / "faults.jsonl"


def seeds(text: str) -> list[int]:
    """`1-10`, `3`, or `1,4,7-9` as numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def known(results: Path) -> dict[int, dict[str, Any]]:
    """Seed -> its newest line; half a line of an interrupted write is not one."""
    found: dict[int, dict[str, Any]] = {}
    if results.exists():
        for line in results.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            found[entry["seed"]] = entry
    return found


def summary(report: dict[str, Any], seconds: float) -> dict[str, Any]:
    """One line of the results: what was claimed and found, and the story of the kill."""
    names = ("id", "produced", "landed", "quarantined", "late_dropped", "missing", "duplicates", "mismatched_windows")
    return {
        "seed": report["seed"],
        "ok": report["ok"],
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "records": report["records"],
        "kill": next((line for line in report["story"] if "SIGKILL" in line), None),
        "back": next((line for line in report["story"] if "the driver was restarted" in line), None),
        "streams": [{name: stream[name] for name in names} for stream in report["streams"]],
        "quality": [run["verdict"] for run in report["quality"]],
        "problems": report["problems"],
        "timings_s": report["timings_s"] | {"wall": round(seconds, 1)},
        "peak_pss_bytes": report["peak_pss_bytes"],
    }


def run(seed: int, home: Path, extra: list[str]) -> dict[str, Any]:
    """One checked demo; a run that left no report is a failed line too."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = [
            str(Path(sys.executable).with_name("lakeward")), "demo", "--check", "--seed", str(seed),
            "--report", str(file), "--home", str(home), "--project", str(ROOT), *extra,
        ]  # fmt: skip
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begun
        if file.exists():
            return summary(json.loads(file.read_text()), seconds)
        problem = f"no report, exit code {done.returncode}"
        return {"seed": seed, "ok": False, "problems": [problem], "timings_s": {"wall": round(seconds, 1)}}


def main(argv: list[str] | None = None) -> int:
    """Run what is missing; print one line a seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds, default=seeds("1-10"), help="e.g. 1-10 or 1,4,7-9")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON lines; what stands there is not run again")
    parser.add_argument("--home", type=Path, default=ROOT / ".lakeward" / "faults")
    parser.add_argument("--again", action="store_true", help="run seeds that failed before once more")
    arguments, extra = parser.parse_known_args(argv)
    done = known(arguments.results)
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        if seed not in done or (arguments.again and not done[seed]["ok"]):
            done[seed] = run(seed, arguments.home / str(seed), extra)
            with arguments.results.open("a") as results:
                results.write(json.dumps(done[seed]) + "\n")
        entry = done[seed]
        print(f"seed {seed}: {'ok' if entry['ok'] else 'FAILED ' + '; '.join(entry['problems'])}", flush=True)
    return 0 if all(done[seed]["ok"] for seed in arguments.seeds) else 1


if __name__ == "__main__":
    raise SystemExit(main())
