"""Reader of one stream's file: merges defaults, reads its SQL, runs all checks, records the origin of each value."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakeward.platform.runtime import Project, resolved
from lakeward.spec.checks import stream
from lakeward.spec.checks.reference_files import exists, unreachable
from lakeward.spec.checks.secrets import holds_token
from lakeward.spec.model.sinks import Quarantine
from lakeward.spec.model.stream import SINGLE, StreamSpec, long_form, mixed_forms, written_path
from lakeward.spec.model.table_names import KnownCatalogs, TableName
from lakeward.spec.model.tables import merged
from lakeward.spec.model.types import DriverName
from lakeward.spec.python.stream_python import PythonReader
from lakeward.spec.read.document import Document, Path_
from lakeward.spec.read.files import Files
from lakeward.spec.read.messages import Finding, findings, known_keys, two_forms
from lakeward.spec.read.problems import nearest
from lakeward.spec.read.provenance import Origins
from lakeward.spec.read.repair import concerns, repaired
from lakeward.spec.sql.analysis import SqlFacts, analyse
from lakeward.spec.sql.lineage import Lineage, decide
from lakeward.spec.sql.names import with_suffix
from lakeward.spec.sql.statements import SqlProblem

_WHOLE = ("trigger",)  # exactly one form each: a default is replaced, not merged


@dataclass(frozen=True)
class StreamFile:
    """The content of one stream file.

    Attributes:
        spec: resolved. If the file has errors: its valid parts, to be compared with other streams.
        document: for problems found later.
        doubtful: paths of the spec that cannot be checked.
        origins: path of every value -> its origin; None if the file has an error.
    """

    spec: StreamSpec
    document: Document
    sql_file: str | None
    doubtful: frozenset[Path_]
    origins: dict[str, str] | None


@dataclass(frozen=True)
class Defaults:
    """The defaults of conf/lakeward.yaml for all streams.

    Attributes:
        values: the valid keys.
        unknown: keys with an unreadable default.
    """

    values: Mapping[str, Any]
    unknown: frozenset[str] = frozenset()


class StreamReader:
    """Reads one stream file."""

    def __init__(
        self,
        project: Project,
        files: Files,
        settings: Document | None,
        defaults: Defaults,
        known_catalogs: KnownCatalogs,
    ) -> None:
        self.project = project
        self.files = files
        self.settings = settings
        self.defaults = defaults
        self.known_catalogs = known_catalogs
        self.document: Document | None = None
        self.sql_file: Path | None = None
        self.sql_text: str | None = None
        self.code: dict[str, dict[str, str]] = {}
        self.doubtful: frozenset[Path_] = frozenset()
        self.whole = True

    def read(self, file: Path) -> StreamFile | None:
        """Read the file as far as possible; its problems go to `files`."""
        self.file = file
        before = self.files.errors
        self.document = self.files.document(file)
        if self.document is None:
            return None
        data = self._long(self._with_defaults(self._one_form(self.document)))
        spec = self._validated(data) if data is not None else None
        if data is None or spec is None:
            return None
        facts = self._sql(data)
        python = PythonReader(self.project, self.files, self._follows, self.doubtful)
        self.code = dict(python.code(spec))
        lines = python.packages(spec, self.document)
        lineage = decide(spec, facts)
        resolved = self._resolved(spec, lineage, lines)
        checked = resolved.model_copy(update={"lineage": spec.lineage, "reference": spec.reference})
        for finding in stream.spec_findings(checked, facts, lineage, self.project.root):
            self._follows(finding)
        origins = Origins(self.document, self.files.name(file), self.settings, self.project, self.sql_name)
        good = self.whole and self.files.errors == before
        return StreamFile(resolved, self.document, self.sql_name, self.doubtful,
                          origins.of(resolved, spec, lineage) if good else None)  # fmt: skip

    @property
    def sql_name(self) -> str | None:
        """The SQL file relative to the project."""
        return self.files.name(self.sql_file) if self.sql_file else None

    def _with_defaults(self, written: dict[str, Any]) -> dict[str, Any]:
        below = {key: value for key, value in self.defaults.values.items() if key not in _WHOLE or key not in written}
        return merged({"id": self.file.stem} | below, written)

    def _one_form(self, document: Document) -> dict[str, Any]:
        """The data without mixtures of short and long form; reports them."""
        data: dict[str, Any] = dict(document.data)
        for path, message in mixed_forms(data):
            self.files.found(self.file, document, Finding(path, message, key=True))
            if len(path) > 1:
                data[SINGLE] = {key: value for key, value in data[SINGLE].items() if key != path[1]}
            else:
                data.pop(str(path[0]), None)
        return data

    def _long(self, data: dict[str, Any]) -> dict[str, Any] | None:
        try:
            return self._without_code(self._sql_in_place(long_form(data)))
        except ValueError as error:  # the defaults and the file contradict each other
            self._found(Finding((), str(error)))
            return None

    def _validated(self, data: dict[str, Any]) -> StreamSpec | None:
        """The spec; with problems its valid parts, for checks that need a complete spec."""
        hint = stream.single_source_hint(data)
        if hint:
            self._found(hint)
            self.doubtful |= {hint.path}
        try:
            return StreamSpec.model_validate(data, by_name=False, context=self.known_catalogs)
        except ValidationError as error:
            problems = findings(error, StreamSpec, data)
        unique = {(problem.path, problem.message): problem for problem in (*problems, *two_forms(StreamSpec, data))}
        rest = repaired(StreamSpec, data, unique.values(), self.known_catalogs)
        for finding in (unique | {(later.path, later.message): later for later in rest.later}).values():
            if not (finding.missing and finding.path[0] in self.defaults.unknown):
                self._found(finding)
        self.doubtful |= rest.doubtful
        self.whole = False
        return rest.spec

    def _sql_in_place(self, data: dict[str, Any]) -> dict[str, Any]:
        """`transform: {file: x.sql}` with the text of the file instead of its name."""
        transform = data.get("transform")
        if not isinstance(transform, dict):
            self.sql_text = None if "transform" in data else "SELECT * FROM source"
            return data
        name = transform.get("file")
        if isinstance(transform.get("sql"), str):
            self.sql_text = transform["sql"] or None  # reported as empty
        if not isinstance(name, str) or set(transform) - {"udfs"} != {"file"}:
            return data
        text = self._sql_file(name)
        if text is None:
            return data
        self.sql_text = text
        return data | {"transform": {**{key: transform[key] for key in ("udfs",) if key in transform}, "sql": text}}

    def _without_code(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data without the keys that only the loader sets; in a file they are unknown keys."""
        for part, key in (("transform", "code"), ("sink", "code"), ("", "packages")):
            given = data.get(part) if part else data
            if isinstance(given, dict) and key in given:
                at: Path_ = (part, key) if part else (key,)
                self._found(Finding(at, f"unknown key {key!r}", key, known_keys(StreamSpec, at[:-1]), key=True))
                rest = {name: value for name, value in given.items() if name != key}
                data = data | {part: rest} if part else rest
        return data

    def _sql_file(self, name: str) -> str | None:
        file = resolved(self.file.parent / name)
        if not file.is_relative_to(self.project.root):
            self._found(Finding(("transform", "file"), "the SQL file must be inside the project", name))
            return None
        if why := unreachable(file):
            self._found(Finding(("transform", "file"), f"this SQL file cannot be read: {why}", name))
            return None
        if not exists(file, Path.is_file):
            there = sorted(path.name for path in self.file.parent.glob("*.sql"))
            message = f"this SQL file does not exist: {self.files.name(file)}"
            self._found(Finding(("transform", "file"), message, name, tuple(there), nearest(name, there)))
            return None
        text = self.files.text(file)
        if text is not None and not text.strip():
            self.files.whole(file, "this SQL file is empty")
            return None
        if text is not None and holds_token(text):
            self.files.whole(file, stream.LEAKS)
            return None
        self.sql_file = file if text is not None else None
        return text

    def _sql(self, data: dict[str, Any]) -> SqlFacts | None:
        """Facts of the SQL; its problems are reported even if the rest of the file has others."""
        if self.sql_text is None:
            return None
        sources, reference = ([str(name) for name in data.get(key) or ()] if isinstance(data.get(key), dict) else []
                              for key in ("sources", "reference"))  # fmt: skip
        try:
            facts = analyse(self.sql_text, sources)
        except SqlProblem as error:
            self._found(Finding(("transform", "sql"), str(error), at=(error.line, error.column)))
            return None
        strangers = list(stream.name_findings(facts, sources, reference))
        for finding in strangers:
            self._follows(finding)
        wrong = any(not finding.warning for finding in strangers)
        return None if wrong else facts  # other problems of the SQL are reported once it reads the right names

    def _resolved(self, spec: StreamSpec, lineage: Lineage, lines: tuple[str, ...] | None) -> StreamSpec:
        update: dict[str, Any] = {"lineage": lineage.value, "packages": lines}
        if spec.quarantine is None and spec.sink.table is not None:
            update["quarantine"] = Quarantine(table=TableName(with_suffix(spec.sink.table, "_quarantine")))
        if spec.resources.driver is None:
            update["resources"] = spec.resources.model_copy(update={"driver": DriverName(spec.id)})
        if self.sql_text is not None:
            update["transform"] = spec.transform.model_copy(update={"sql": self.sql_text, "file": None, "python": None})
        for part, code in self.code.items():
            update[part] = (update.get(part) or getattr(spec, part)).model_copy(update={"code": code})
        reference = {}
        for name, table in spec.reference.items():
            path = table.csv or table.parquet
            if path and "://" not in path:
                table = table.model_copy(update={table.kind: str(resolved(self.project.root / path))})
            reference[name] = table
        sources = {}
        for name, source in spec.sources.items():
            if source.files is not None and "://" not in source.files.path:
                path = os.path.abspath(self.project.root / source.files.path)  # noqa: PTH100  # a link stays: it may move
                source = source.model_copy(update={"files": source.files.model_copy(update={"path": path})})
            sources[name] = source
        return spec.model_copy(update=update | {"reference": reference, "sources": sources})

    def _follows(self, finding: Finding) -> None:
        """Report a finding of the whole spec, unless it may only follow from a part that is already reported."""
        if not concerns(finding, self.doubtful):
            self._found(finding)

    def _found(self, finding: Finding) -> None:
        """Report a finding at its source: the SQL file, the stream's file, or the defaults."""
        document = self.document
        if document is None:
            return
        path: Path_ = written_path(finding.path, document.data)
        if path == ("transform", "sql") and self.sql_file is not None:
            line, column = finding.at or (1, 1)
            self.files.add(
                self.sql_file,
                line or 1,
                column or 1,
                path,
                finding.message,
                finding.value,
                finding.valid,
                finding.nearest,
                warning=finding.warning,
            )
            return
        below = ("defaults", *path)
        if path and not document.has(path) and self.settings is not None and self.settings.has(below):
            self.files.found(self.project.settings_file, self.settings, finding, below)
            return
        self.files.found(self.file, document, finding, path)
