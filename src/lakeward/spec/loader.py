"""Read a project: every file, every problem, in one pass. One bad file never hides the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lakeward.runtime import Project
from lakeward.spec import not_yet, spark_conf
from lakeward.spec.cross_checks import CrossFinding, comparable, stream_findings, suite_findings, unused_findings
from lakeward.spec.document import Document, Path_
from lakeward.spec.files import Files
from lakeward.spec.messages import Finding, findings, known_keys
from lakeward.spec.problems import Problem
from lakeward.spec.settings import Settings
from lakeward.spec.stream import StreamSpec
from lakeward.spec.stream_file import Defaults, StreamReader
from lakeward.spec.suite import Suite
from lakeward.spec.tables import Tables, below_floors, larger_than_a_group

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class LoadedStream:
    """A stream whose file is in order.

    Attributes:
        spec: resolved: defaults merged, SQL read, lineage and quarantine decided.
        file: relative to the project; `sql_file` likewise, None when the SQL stands in the file.
        origins: path of every value -> where it came from, in words.
    """

    spec: StreamSpec
    file: str
    sql_file: str | None
    origins: Mapping[str, str]


@dataclass(frozen=True)
class Loaded:
    """Everything a project says, and everything that is wrong with it.

    `streams` and `suites` hold what could be read; with errors among the problems nothing may be deployed.
    """

    streams: Mapping[str, LoadedStream]
    tables: Tables
    settings: Settings
    suites: Mapping[str, Suite]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings do not count."""
        return all(problem.severity != "error" for problem in self.problems)

    @property
    def specs(self) -> list[StreamSpec]:
        """The streams' specs by id."""
        return [self.streams[name].spec for name in sorted(self.streams)]


def load_project(project: Project) -> Loaded:
    """Read everything a project says. Never raises for what stands in its files."""
    return _Loading(project).load()


class _Loading:
    """One pass over a project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.files = Files(project.root)
        self.documents: dict[str, tuple[Path, Document]] = {}  # stream id, table, lakeward.yaml -> its file
        self.compared: list[StreamSpec] = []  # the streams of which enough can be read, also with other mistakes
        self.all_compared = True

    def load(self) -> Loaded:
        settings, settings_document = self._settings()
        tables = self._tables()
        streams = self._streams(settings_document)
        suites = self._suites()
        drivers = _declared_drivers(self.project, settings_document)
        # A file that could not be read may be the one that writes the table.
        writers = self.compared if self.all_compared else []
        for finding in (*stream_findings(self.compared, drivers), *suite_findings(list(suites.values()), writers)):
            self._cross(finding, settings_document)
        if not self.files.errors:
            for finding in unused_findings(self.compared, settings, tables):
                self._cross(finding, settings_document)
        order = sorted(self.files.problems, key=lambda p: (p.file, p.line, p.column, p.path))
        return Loaded(streams, tables, settings, suites, tuple(dict.fromkeys(order)))

    def _model(self, file: Path, kind: type[_Model]) -> tuple[_Model | None, Document | None]:
        document = self.files.document(file)
        if document is None:
            return None, None
        self.documents[file.name] = (file, document)
        try:
            return kind.model_validate(document.data, by_name=False), document
        except ValidationError as error:
            for finding in findings(error, kind, document.data):
                self.files.found(file, document, finding)
        return None, document

    def _settings(self) -> tuple[Settings, Document | None]:
        file = self.project.settings_file
        self.files.tell_misnamed(file)
        if not (file.exists() or file.is_symlink()):  # a link to nowhere is told when it is read
            return Settings(), None
        settings, document = self._model(file, Settings)
        if settings is None or document is None:
            return Settings(), document
        for path, what in not_yet.of_settings(settings):
            self.files.found(file, document, Finding(path, f"not yet: {what}"))
        for key in getattr(settings.defaults, "spark", None) or ():
            if refused := spark_conf.refusal(key):
                self.files.found(file, document, Finding(("defaults", "spark", key), refused, key, key=True))
        for name, driver in settings.drivers.items():
            for key in driver.spark:
                if refused := spark_conf.refusal(key, whole_driver=True):
                    self.files.found(file, document, Finding(("drivers", name, "spark", key), refused, key, key=True))
        return settings, document

    def _usable_defaults(self, document: Document | None) -> Defaults:
        """The defaults that have no problem of their own: a bad one is reported once, not once a stream."""
        name = self.files.name(self.project.settings_file)
        mine = [problem.path for problem in self.files.problems if problem.file == name]
        written = document.data.get("defaults", {}) if document is not None else {}
        if not isinstance(written, dict) or (document is None and mine):
            return Defaults({}, frozenset(known_keys(Settings, ("defaults",))))
        bad = {path.split(".")[1] for path in mine if path.startswith("defaults.")}
        return Defaults({key: value for key, value in written.items() if key not in bad}, frozenset(bad))

    def _tables(self) -> Tables:
        file = self.project.tables_file
        self.files.tell_misnamed(file)
        if not (file.exists() or file.is_symlink()):  # a link to nowhere is told when it is read
            return Tables()
        tables, document = self._model(file, Tables)
        if tables is None or document is None:
            return Tables()
        for path, what in not_yet.of_tables(tables):
            self.files.found(file, document, Finding(path, f"not yet: {what}"))
        checked: list[tuple[Path_, Any]] = [(("defaults",), tables.defaults)]
        checked += [(("policies", index), rule) for index, rule in enumerate(tables.policies)]
        for at, rule in (*checked, *((("unsafe", index), rule) for index, rule in enumerate(tables.unsafe))):
            if too_large := larger_than_a_group(rule):
                self.files.found(file, document, Finding((*at, "compact", "target_size"), too_large))
        for at, rule in checked:
            for threshold, value, floor, cost in below_floors(rule):
                message = (
                    f"below the floor of {floor}: {cost}; to accept that, move the entry under unsafe: and say why"
                )
                self.files.found(file, document, Finding((*at, *threshold.split(".")), message, str(value)))
        return tables

    def _streams(self, settings_document: Document | None) -> dict[str, LoadedStream]:
        folder = self.project.streams
        if not folder.is_dir():
            self.files.whole(
                folder, "there is no such folder, so this is no Lakeward project; lakeward init DIR makes one"
            )
            return {}
        defaults = self._usable_defaults(settings_document)
        streams: dict[str, LoadedStream] = {}
        for file in sorted(folder.iterdir()):
            if file.name.startswith("."):  # an editor's own: its lock, its copy
                continue
            if file.suffix != ".yaml":
                self.files.tell_ignored(file)
                continue
            found = StreamReader(self.project, self.files, settings_document, defaults).read(file)
            if found is None or ("id",) in found.doubtful:
                self.all_compared = False
                continue
            spec = found.spec
            if spec.id in self.documents:
                place = found.document.place(("id",))
                message = f"stream {spec.id} is declared in {self.files.name(self.documents[spec.id][0])} too"
                self.files.add(file, place.line, place.column, ("id",), message, str(spec.id))
                continue
            self.documents[spec.id] = (file, found.document)
            self.compared.append(comparable(spec, found.doubtful))
            self.all_compared &= self.compared[-1].sink == spec.sink
            if found.origins is not None:
                streams[spec.id] = LoadedStream(spec, self.files.name(file), found.sql_file, found.origins)
        return streams

    def _suites(self) -> dict[str, Suite]:
        folder = self.project.expectations
        suites: dict[str, Suite] = {}
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            if file.name.startswith("."):
                continue
            if file.suffix != ".yaml":
                self.files.tell_ignored(file)
                continue
            suite, document = self._model(file, Suite)
            if suite is None or document is None:
                continue
            if file.stem != suite.table:
                finding = Finding(
                    ("table",), f"a suite's file is named after its table: {suite.table}.yaml", suite.table
                )
                self.files.found(file, document, finding)
                continue
            for path, what in not_yet.of_suite(suite):
                valid = ("record", "warn", "hold")
                self.files.found(file, document, Finding(path, f"not yet: {what}", "quarantine", valid))
            suites[suite.table] = suite
            self.documents[suite.table] = (file, document)
        return suites

    def _cross(self, finding: CrossFinding, settings: Document | None) -> None:
        file, document = self.documents[finding.owner]
        path: Path_ = finding.path
        if not document.has(path) and settings is not None and settings.has(("defaults", *path)):
            file, document, path = self.project.settings_file, settings, ("defaults", *path)
        place = document.place(path, key=finding.key)
        self.files.add(
            file, place.line, place.column, path, finding.message, finding.value,
            warning=finding.severity == "warning",
        )  # fmt: skip


def _declared_drivers(project: Project, settings: Document | None) -> frozenset[str] | None:
    """The drivers conf/lakeward.yaml declares, well or badly; None where nobody can read which."""
    if settings is None:
        return None if project.settings_file.exists() else frozenset()
    written = settings.data.get("drivers", {})
    return frozenset(map(str, written)) if isinstance(written, dict) else None
