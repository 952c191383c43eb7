"""Each command of the runbooks is typed literally, in a running demo: `flights` lands in `nyc.flights`."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
COMMAND = re.compile(r"`(lakeward [^`]+)`")
EXAMPLES = {"<id>": "flights", "STREAM": "flights", "<table>": "nyc.flights"}
"""What a person puts in place of the words that stand for a name."""

NAMES = {"lakeward streams start", "lakeward streams stop", "lakeward quality waive", "lakeward deploy --retire OLD_ID"}
"""Names of commands in a sentence, whose arguments the sentence or a how-to has; walks type them."""
SERVES = "lakeward metrics serve"
"""It runs until it is stopped."""
EXPECTED = {
    "lakeward quality show nyc.flights": {0, 3},  # the demo ends with a table that a check holds
    "lakeward quality run nyc.flights": {0, 3},
    "lakeward quality run nyc.flights --scope table": {0, 3},
    "lakeward doctor": {0, 3},  # the memory of the machine decides
    "lakeward streams threads flights": {0, 1},  # 1: no driver was frozen, so none was dumped
    "lakeward streams upgrade flights": {4},  # no generation waits: its file was not changed
    'lakeward tables restore nyc.flights --to 8246375401 --comment "lost rows"': {4},  # no snapshot of the demo
    # It waits for a person's approval.
    'lakeward quality quarantine nyc.flights "column_values_to_not_be_null(carrier)" --comment "bad carrier"': {4},
}
"""Exit codes other than 0. 3 says that something is in trouble, 4 that a person has to do something first."""
LAST = ("lakeward streams restart", "lakeward streams upgrade", "lakeward tables restore")
"""What moves the streams or the table comes after what only reads them."""

pytestmark = [pytest.mark.timeout(3600), pytest.mark.campaign]  # a bound for a hang; a busy machine may need minutes


def typed() -> list[str]:
    """The commands, each once, in the order of the files; those of `LAST` at the end."""
    found: dict[str, None] = {}
    for runbook in RUNBOOKS:
        for command in COMMAND.findall(runbook.read_text()):
            for word, name in EXAMPLES.items():
                command = command.replace(word, name)
            found[command] = None
    return sorted((command for command in found if command not in NAMES), key=lambda it: it.startswith(LAST))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a person at the demo's stack, after it has landed its records and held a check."""
    home = tmp_path_factory.mktemp("runbooks") / "home"
    environment = {**os.environ, "LAKEWARD_HOME": str(home), "LAKEWARD_PROJECT": str(ROOT)}
    there = {**environment, "LAKEWARD_HOME": str(home / "check")}
    program = [sys.executable, "-m", "lakeward"]
    try:
        done = subprocess.run(
            [*program, "demo", "--check", "--keep", "--records", "5000"], env=environment, text=True, check=False,
            capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        yield there
    finally:
        subprocess.run([*program, "stack", "down"], env=there, check=False)


def test_each_command_does_what_the_runbook_says(demo: dict[str, str]) -> None:
    commands = typed()
    assert set(EXPECTED) <= set(commands), "an expectation of a command that no runbook has"
    failed = []
    for command in commands:
        words = [sys.executable, "-m", *shlex.split(command)]
        if command == SERVES:
            code, said = _served(words, demo)
        else:
            done = subprocess.run(words, env=demo, text=True, check=False, capture_output=True, timeout=900)
            code, said = done.returncode, done.stdout + done.stderr
        if code not in EXPECTED.get(command, {0}) or "Traceback" in said:
            failed.append(f"{command}: exit code {code}\n{said[-1500:]}")
    assert not failed, "\n\n".join(failed)


def _served(words: list[str], demo: dict[str, str]) -> tuple[int, str]:
    with subprocess.Popen(words, env=demo, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        return process.wait(60), first
