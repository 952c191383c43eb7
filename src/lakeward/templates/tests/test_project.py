"""The project's own test: its specs are in order. Run by CI before anything is deployed."""

import json
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def test_the_specs_are_in_order():
    command = [sys.executable, "-m", "lakeward", "config", "validate", "-o", "json", "--project", str(PROJECT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"]
