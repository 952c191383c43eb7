"""`make yarn-test`: drivers on a real YARN; writes docs/reference/yarn-test.md.

It fetches the jars of Hadoop's servers by Ivy, which takes a minute and is kept, and runs
tests/faults/test_driver_yarn.py.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "docs/reference/yarn-test.md"
TEMPLATE = Path(__file__).with_name("report.txt")


def page(facts: dict[str, Any]) -> str:
    """The page of the docs."""
    kills, away, rows, forgot = facts["kills"], facts["manager_away"], facts["rows"], facts["manager_without_memory"]

    def spread(values: list[float]) -> str:
        return f"{sorted(values)[len(values) // 2]:.0f}, {max(values):.0f}"

    def one_line(words: object) -> str:
        return " ".join(str(words).split()).replace("|", "/").replace(str(Path.home()), "~")

    def said(record: dict[str, Any] | None) -> str:
        if record is None:
            return "given up by lease and heartbeat, without an exit record"
        return one_line(record.get("error") or f"exit code {record.get('exit_code')}")

    bad = "\n".join(f"| {name} | {one_line(words)} |" for name, words in facts["bad_input"].items())
    return TEMPLATE.read_text().format(
        date=f"{datetime.now(UTC):%Y-%m-%d}", hadoop=facts["hadoop"], linux=platform.release().split("-")[0],
        cores=os.cpu_count(), load=os.getloadavg()[2], spark=version("pyspark"), starter=facts["starter_died"],
        kills=kills["count"], relaunched=spread(kills["relaunched_s"]), committing=spread(kills["committing_s"]),
        failure=one_line(kills["failure"]), person=said(facts["killed_through_yarn"]), away=away["seconds"],
        passes=away["passes"], landed=away["landed_meanwhile"], seen=one_line(forgot["seen"]).rstrip(": "),
        forgotten=said(forgot["exit"]), bad=bad, sent=rows["sent"], rows=rows["landed"], lost=rows["lost"],
        doubled=rows["doubled"],
    )  # fmt: skip


def main() -> int:
    evidence = Path.home() / ".cache" / "lakeward" / "yarn-test.json"
    evidence.parent.mkdir(parents=True, exist_ok=True)
    evidence.unlink(missing_ok=True)
    environment = {**os.environ, "LAKEWARD_YARN": "1", "LAKEWARD_YARN_EVIDENCE": str(evidence)}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "campaign", "tests/faults/test_driver_yarn.py"]
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code == 0:
        REPORT.write_text(page(json.loads(evidence.read_text())))
        print(f"report: {REPORT.relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
