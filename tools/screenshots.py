"""The pictures of the docs, by `make screenshots`: the demo runs and is checked, its page is looked at in Chromium,
and the lineage that it sends is drawn.

Needs Node 20 or newer, Chromium and the packages of `ui/` (`npm ci`). `ui/browse.mjs` fails if the page lacks a text,
so a picture is also a test. The stack has a home of its own and is stopped at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PICTURES = ("page-streams", "page-stream", "page-table", "page-quality")
PROGRAM = (sys.executable, "-m", "lakeward")


def main() -> int:
    """Make the pictures; the exit code of what failed."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        check = {**os.environ, "LAKEWARD_HOME": str(home / "check"), "LAKEWARD_PROJECT": str(ROOT)}
        demo = [*PROGRAM, "demo", "--check", "--keep", "--home", str(home), "--project", str(ROOT)]
        try:
            done = subprocess.run(demo, check=False).returncode
            return done or _pictures(home / "check", Path(folder), check) or _lineage(Path(folder), check)
        finally:
            subprocess.run([*PROGRAM, "stack", "down"], env=check, check=False)


def _pictures(home: Path, folder: Path, environment: dict[str, str]) -> int:
    started = subprocess.run(
        [*PROGRAM, "stack", "up", "--no-deploy", "-o", "json"], env=environment, stdout=subprocess.PIPE, check=True
    )
    address = json.loads(started.stdout)["airflow"]["url"]
    for scheme, ending in (("light", ""), ("dark", "-dark")):
        out = folder / scheme
        out.mkdir()
        words = [
            "node", "browse.mjs", address, str(home / "secrets" / "airflow.password"), str(out), "flights", scheme,
            "--table=nyc.flights", "--checks=nyc.flights",
        ]  # fmt: skip
        done = subprocess.run(words, cwd=ROOT / "ui", check=False).returncode
        if done:
            return done
        for name in PICTURES:
            shutil.copyfile(out / f"{name}.png", IMAGES / f"{name}{ending}.png")
    return 0


def _lineage(folder: Path, environment: dict[str, str]) -> int:
    events = folder / "events.jsonl"
    transport = {"TYPE": "file", "LOG_FILE_PATH": str(events), "APPEND": "true"}
    sent = {**environment, **{f"OPENLINEAGE__TRANSPORT__{name}": value for name, value in transport.items()}}
    done = subprocess.run([*PROGRAM, "lineage", "send"], env=sent, check=False).returncode
    target, page = ROOT / "docs" / "explanation" / "lineage.json", ROOT / "docs" / "how-to" / "send-lineage.md"
    drawn = [sys.executable, str(ROOT / "tools" / "lineage_graph.py"), str(events), str(target), str(page)]
    return done or subprocess.run(drawn, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
