"""Start wrapper of a part: end the leftover processes of a killed predecessor, then execute the program.

`python -m lakeward.stack.run FOLDER NAME`, where `FOLDER/NAME.program.json` (0600) is the program to become.

A killed scheduler leaves idle executor workers that ignore SIGTERM and never end; a killed triggerer leaves its runner.
They belong to the process group of the dead process, recorded in `NAME.process.json`. A worker that supervises a task
is not ended, so that the task continues. Detached drivers have their own process groups and are never ended.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import psutil

from lakeward.stack import private
from lakeward.stack.program import Program
from lakeward.stack.state import Process

_EXECUTOR_WORKER = "airflow worker -- LocalExecutor"
_IDLE = "<idle>"


def save(folder: Path, name: str, program: Program) -> None:
    """Write the program of part `name` for its next start."""
    private.write(folder / f"{name}.program.json", json.dumps(asdict(program), indent=2))


def load(folder: Path, name: str) -> Program:
    """The program that `save` wrote."""
    return Program(**json.loads((folder / f"{name}.program.json").read_text()))


def leftovers(predecessor: Process) -> list[psutil.Process]:
    """The useless processes in the process group of a dead predecessor."""
    if predecessor.alive():
        return []
    useless = []
    for process in psutil.process_iter():
        try:
            in_group = os.getpgid(process.pid) == predecessor.pid and process.create_time() >= predecessor.created - 1
            if in_group and process.pid != os.getpid() and _useless(process):
                useless.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError, PermissionError):
            continue
    return useless


def sweep(record: Path) -> None:
    """Kill the leftover processes of the recorded predecessor, and record this process."""
    try:
        predecessor = Process.model_validate_json(record.read_text())
    except (FileNotFoundError, ValueError):
        predecessor = None
    for process in leftovers(predecessor) if predecessor else []:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    private.write(record, Process.of(os.getpid()).model_dump_json())


def _useless(process: psutil.Process) -> bool:
    title = " ".join(process.cmdline())
    return not title.startswith(_EXECUTOR_WORKER) or _IDLE in title


def main(arguments: list[str]) -> None:
    """Entry point; does not return."""
    folder, name = Path(arguments[0]), arguments[1]
    program = load(folder, name)
    sweep(folder / f"{name}.process.json")
    os.chdir(program.folder)
    os.execve(program.command[0], program.command, program.environment)  # noqa: S606 - a list, and it must be this process


if __name__ == "__main__":
    main(sys.argv[1:])
