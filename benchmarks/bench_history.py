"""The history of benchmarks: one JSON line for each run of a script; the page shows the newest complete run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HISTORY = Path(__file__).with_name("history.jsonl")


@dataclass(frozen=True)
class Record:
    """One run of a script.

    Attributes:
        name: of the benchmark.
        at: when it began, UTC.
        commit: what was measured; a plus sign: with changes that are not committed.
        command: the script and its arguments.
        seconds: how long it took.
        load: of the machine before and after; the run itself is in the second one.
        machine: CPU, cores, memory and versions.
        result: what it printed; None if it failed.
        failed: why it failed, empty if it did not.
    """

    name: str
    at: str
    commit: str
    command: tuple[str, ...]
    seconds: int
    load: tuple[float, float]
    machine: Mapping[str, Any]
    result: Mapping[str, Any] | None
    failed: str = ""

    def line(self) -> str:
        """As the history has it. Samples of a single run (`samples`, `all`, `each`, `runs`) are left out."""
        return json.dumps(asdict(self) | {"result": _without_samples(self.result)}) + "\n"


def read(file: Path = HISTORY) -> list[Record]:
    """Every run, oldest first."""
    if not file.exists():
        return []
    documents = (json.loads(line) for line in file.read_text().splitlines() if line)
    return [Record(**{**each, "command": tuple(each["command"]), "load": tuple(each["load"])}) for each in documents]


def newest(records: Iterable[Record]) -> dict[str, Record]:
    """The last run of each benchmark that did not fail."""
    return {each.name: each for each in records if not each.failed}


def measured_at(records: Iterable[Record], name: str, commit: str) -> bool:
    """Whether a benchmark was measured at a commit; never, if something was not committed."""
    return not commit.endswith("+") and any(
        each.name == name and each.commit == commit and not each.failed for each in records
    )


def _without_samples(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _without_samples(each) for key, each in value.items() if key not in ("samples", "all", "each", "runs")}
