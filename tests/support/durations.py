"""Record how long each test file took, from the JUnit report of a run: `make durations`.

python tests/support/durations.py .lakeward/tests.xml
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree as Xml

ROOT = Path(__file__).parents[2]
DURATIONS = ROOT / "tests" / "durations.json"


def seconds(report: Path) -> dict[str, float]:
    """File -> seconds of all its tests, their fixtures included."""
    found: defaultdict[str, float] = defaultdict(float)
    for case in Xml.parse(report).iter("testcase"):
        found[f"{case.attrib['classname'].replace('.', '/')}.py"] += float(case.attrib["time"])
    return {name: round(took, 1) for name, took in sorted(found.items()) if (ROOT / name).exists()}


def main(report: Path) -> None:
    """Write what a run took; what it did not run keeps its seconds."""
    recorded = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    merged = {name: took for name, took in (recorded | seconds(report)).items() if (ROOT / name).exists()}
    DURATIONS.write_text(json.dumps(dict(sorted(merged.items())), indent=0) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
