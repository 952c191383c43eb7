"""Provenance: the origin of each value of a resolved spec, for `config show`."""

from __future__ import annotations

from typing import Any, Final

from lakeward.platform.runtime import Project
from lakeward.spec.model.stream import StreamSpec, written_path
from lakeward.spec.python.code import FOLDER
from lakeward.spec.read.document import Document, Path_
from lakeward.spec.sql.lineage import Lineage

REASONS: Final[dict[str, str]] = {
    "id": "the file's name",
    "tags": "none",
    "enabled": "a declared stream is meant to run",
    "reference": "none",
    "rules": "none",
    "spark": "none",
    "kafka.topics": "none",
    "kafka.connection": "the connection that the stack configures",
    "kafka.starting_offsets": "a new stream lands what the broker still has",
    "kafka.isolation_level": "an aborted transaction never lands",
    "kafka.mode": "rows are added",
    "rate.rows_per_second": "enough to see something",
    "delta.skip_changes": "skipping rows needs a decision by a person",
    "files.header": "a CSV with a header can be checked",
    "files.after": "the owner of a file knows whether it is still needed",
    "decode.columns": "the value's columns and the position are what a table needs",
    "watermark.max_ahead": "1h for Kafka and Kinesis: one event of the year 2099 would make every other one late",
    "deduplicate.within_watermark": "state that is never dropped grows without end",
    "reference.refresh": "static tables change rarely",
    "transform.sql": "every row as it is decoded",
    "transform.pandas": "one value at a time is what most functions do",
    "transform.deterministic": "most functions are, and Spark plans better for them",
    "iceberg.mode": "rows are added",
    "iceberg.partition_by": "not partitioned",
    "iceberg.properties": "Lakeward's own only",
    "iceberg.commit": "the position commits with the data",
    "schema.evolution": "a person should check a changed source first",
    "trigger.every": "keeps commits, small files and freshness in balance on a lake table",
    "limits.freshness": "ten times the default trigger",
    "limits.stall": "long enough for a slow batch, short enough for a person",
    "state.provider": "state outside the heap, and the only one that does not stop to collect garbage",
    "restart.max_backoff": "a dependency that is back is noticed within ten minutes",
    "restart.reset_after": "half an hour of commits proves that it runs again",
}
"""End of a path -> the reason of its default."""


def reason(path: Path_) -> str | None:
    """The reason of the default at `path`; sources and sinks are looked up by connector."""
    words = [str(part) for part in path]
    for length in range(min(2, len(words)), 0, -1):
        if text := REASONS.get(".".join(words[-length:])):
            return text
    return REASONS.get(f"{words[0]}.{words[-1]}")


class Origins:
    """The origins of all leaves of one resolved spec."""

    def __init__(
        self, document: Document, file: str, settings: Document | None, project: Project, sql_file: str | None
    ) -> None:
        self.document = document
        self.file = file
        self.settings = settings
        self.settings_name = project.settings_file.relative_to(project.root).as_posix()
        self.sql_file = sql_file

    def of(self, resolved: StreamSpec, written: StreamSpec, lineage: Lineage) -> dict[str, str]:
        """Dotted path -> origin: `conf/streams/flights.yaml:12`, `default: reason` or `derived: reason`."""
        origins = {}
        for path in _leaves(resolved.document()):
            origins[".".join(str(part) for part in path)] = self._origin(path, written, lineage)
        return origins

    def _origin(self, path: Path_, written: StreamSpec, lineage: Lineage) -> str:
        in_file = written_path(path, self.document.data)
        if path == ("transform", "sql") and self.sql_file:
            return self.sql_file
        if path[:2] in (("transform", "code"), ("sink", "code")):
            return f"{FOLDER}/{path[-1]}"
        if self.document.has(in_file):
            return f"{self.file}:{self.document.place(in_file).line}"
        below = ("defaults", *in_file)
        if self.settings is not None and self.settings.has(below):
            return f"{self.settings_name}:{self.settings.place(below).line}"
        if path == ("packages",):
            return f"{FOLDER}/{written.requirements}"
        if path == ("lineage",):
            return lineage.why
        if path == ("quarantine", "table") and written.quarantine is None:
            return "derived: the sink's table with _quarantine"
        if path == ("resources", "driver"):
            return "derived: a driver of its own"
        return f"default: {reason(path) or 'see docs/reference'}"


def _leaves(data: Any, path: Path_ = ()) -> list[Path_]:
    if isinstance(data, dict) and data:
        return [leaf for key, value in data.items() for leaf in _leaves(value, (*path, key))]
    return [path]
