"""Loader of a project: every file and every problem in one pass. An invalid file does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from lakeward.platform.runtime import Project, absent
from lakeward.spec.checks.executors import executor_findings
from lakeward.spec.checks.files import settings_findings, suite_findings, tables_findings
from lakeward.spec.checks.project import (
    ProjectFinding,
    comparable,
    name_findings,
    slow_commits,
    stream_findings,
    unknown_connections,
    unused_findings,
)
from lakeward.spec.model.settings import Settings
from lakeward.spec.model.stream import StreamSpec, written_path
from lakeward.spec.model.suite import Suite
from lakeward.spec.model.table_names import KnownCatalogs
from lakeward.spec.model.tables import Tables
from lakeward.spec.read.document import Document, Path_
from lakeward.spec.read.files import Files
from lakeward.spec.read.messages import Finding, findings, known_keys
from lakeward.spec.read.problems import Problem, raise_if_any
from lakeward.spec.read.repair import concerns, repaired
from lakeward.spec.read.stream_file import Defaults, StreamReader

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class LoadedStream:
    """A stream whose file is valid.

    Attributes:
        spec: resolved: defaults merged, SQL read, lineage and quarantine decided.
        file: relative to the project; `sql_file` likewise, None if the SQL is in the file.
        origins: path of every value -> its origin, as text.
    """

    spec: StreamSpec
    file: str
    sql_file: str | None
    origins: Mapping[str, str]


@dataclass(frozen=True)
class Loaded:
    """A loaded project and all its problems.

    `streams` and `suites` contain what could be read; with an error among the problems nothing may be deployed.
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


Durations = Callable[[Collection[str]], Mapping[str, Sequence[float]]]


def load_settings(project: Project) -> Settings:
    """The settings of `conf/lakeward.yaml`, for callers that must not fall back to defaults.

    Raises:
        SpecError: the file has an error.
    """
    loading = _Loading(project)
    read = loading._settings()
    raise_if_any(loading.files.problems, next="lakeward config validate")
    return read.whole or Settings()


def load_project(
    project: Project, kafka: Collection[str] | None = None, durations: Durations = lambda streams: {}
) -> Loaded:
    """Load a project. Never raises for the content of its files.

    Args:
        kafka: the Kafka connections known on this machine; None: unknown, and none is reported as missing.
        durations: streams -> seconds of their newest batches, if a registry is available.
    """
    return _Loading(project, kafka, durations).load()


@dataclass(frozen=True)
class _Read(Generic[_Model]):
    """The content of one file.

    Attributes:
        document: None if the file does not exist or could not be read.
        model: its valid parts; None if they are too few.
        whole: the same if the file has no problem; only then it is used.
        doubtful: paths that cannot be checked because of another problem.
    """

    document: Document | None
    model: _Model | None
    whole: _Model | None
    doubtful: frozenset[Path_] = frozenset()


class _Loading:
    """One pass over a project."""

    def __init__(
        self, project: Project, kafka: Collection[str] | None = None, durations: Durations = lambda streams: {}
    ) -> None:
        self.project = project
        self.kafka = kafka
        self.durations = durations
        self.files = Files(project.root)
        self.documents: dict[str, tuple[Path, Document]] = {}  # stream id, lakeward.yaml -> its file
        self.compared: list[StreamSpec] = []  # the streams with enough valid parts
        self.all_compared = True
        self.known_catalogs = KnownCatalogs(catalog="", others=())

    def load(self) -> Loaded:
        settings = self._settings()
        streams = self._streams(settings.document)
        landed = {str(table) for spec in self.compared for table in spec.tables}
        tables = self._tables(landed)
        # An unreadable file may be the one that writes the table.
        delta = {str(spec.sink.delta.table) for spec in self.compared if spec.sink.delta is not None}
        suites = self._suites(landed if self.all_compared else (), delta)
        for finding in stream_findings(self.compared, _declared_drivers(self.project, settings.document)):
            self._cross(finding, settings.document)
        for finding in () if self.kafka is None else unknown_connections(self.compared, self.kafka):
            self._cross(finding, settings.document)
        for finding in name_findings(self.compared, settings.model or Settings()):
            self._cross(finding, settings.document)
        for finding in () if settings.model is None else executor_findings(self.compared, settings.model):
            self._cross(finding, settings.document)
        if not self.files.errors:
            for finding in slow_commits(self.compared, self.durations([str(item.id) for item in self.compared])):
                self._cross(finding, settings.document)
            for finding in unused_findings(self.compared, settings.whole or Settings(), tables):
                self._cross(finding, settings.document)
        order = sorted(self.files.problems, key=lambda p: (p.file, p.line, p.column, p.path))
        usable = settings.whole or settings.model or Settings()  # without its invalid parts
        return Loaded(streams, tables, usable, suites, tuple(dict.fromkeys(order)))

    def _read(self, file: Path, kind: type[_Model]) -> _Read[_Model]:
        document = self.files.document(file)
        if document is None:
            return _Read(None, None, None)
        self.documents[file.name] = (file, document)
        try:
            whole = kind.model_validate(document.data, by_name=False, context=self.known_catalogs)
        except ValidationError as error:
            problems = findings(error, kind, document.data)
        else:
            return _Read(document, whole, whole)
        rest = repaired(kind, document.data, problems, self.known_catalogs)
        for finding in (*problems, *rest.later):
            self.files.found(file, document, finding)
        return _Read(document, rest.spec, None, rest.doubtful)

    def _read_if_there(self, file: Path, kind: type[_Model]) -> _Read[_Model]:
        self.files.report_misnamed(file)
        if absent(file):
            return _Read(None, kind(), kind())
        return self._read(file, kind)

    def _follow(self, file: Path, read: _Read[_Model], findings: Iterable[Finding]) -> None:
        """Report findings of a model, unless one may only follow from a part that is already reported."""
        for finding in findings:
            if read.document is not None and not concerns(finding, read.doubtful):
                self.files.found(file, read.document, finding)

    def _settings(self) -> _Read[Settings]:
        read = self._read_if_there(self.project.settings_file, Settings)
        if read.model is not None:
            self._follow(self.project.settings_file, read, settings_findings(read.model))
            self.known_catalogs = read.model.known_catalogs
        return read

    def _usable_defaults(self, document: Document | None) -> Defaults:
        """The valid defaults: an invalid one is reported once, not once per stream."""
        name = self.files.name(self.project.settings_file)
        paths = [problem.path for problem in self.files.problems if problem.file == name]
        written = document.data.get("defaults", {}) if document is not None else {}
        if not isinstance(written, dict) or (document is None and paths):
            return Defaults({}, frozenset(known_keys(Settings, ("defaults",))))
        bad = {path.split(".")[1] for path in paths if path.startswith("defaults.")}
        return Defaults({key: value for key, value in written.items() if key not in bad}, frozenset(bad))

    def _tables(self, landed: Collection[str]) -> Tables:
        read = self._read_if_there(self.project.tables_file, Tables)
        if read.model is not None:
            problems = tables_findings(read.model, landed, read.doubtful)
            self._follow(self.project.tables_file, read, problems)
        return read.whole or Tables()

    def _streams(self, settings_document: Document | None) -> dict[str, LoadedStream]:
        folder = self.project.streams
        listed = self.files.listing(folder)
        if listed is None:
            self.files.whole(
                folder, "there is no such folder, so this is not a Lakeward project; lakeward init DIR creates one"
            )
            return {}
        defaults = self._usable_defaults(settings_document)
        streams: dict[str, LoadedStream] = {}
        for file in listed:
            if file.suffix != ".yaml":
                self.files.report_ignored(file)
                continue
            stream = StreamReader(self.project, self.files, settings_document, defaults, self.known_catalogs).read(file)
            if stream is None or ("id",) in stream.doubtful:
                self.all_compared = False
                continue
            spec = stream.spec
            if spec.id in self.documents:
                place = stream.document.place(("id",))
                message = f"stream {spec.id} is declared in {self.files.name(self.documents[spec.id][0])} too"
                self.files.add(file, place.line, place.column, ("id",), message, str(spec.id))
                continue
            self.documents[spec.id] = (file, stream.document)
            self.compared.append(comparable(spec, stream.doubtful))
            self.all_compared &= self.compared[-1].sink == spec.sink
            if stream.origins is not None:
                streams[spec.id] = LoadedStream(spec, self.files.name(file), stream.sql_file, stream.origins)
        return streams

    def _suites(self, landed: Collection[str], delta: Collection[str]) -> dict[str, Suite]:
        suites: dict[str, Suite] = {}
        for file in self.files.listing(self.project.expectations) or ():
            if file.suffix != ".yaml":
                self.files.report_ignored(file)
                continue
            read = self._read(file, Suite)
            if read.model is not None:
                self._follow(file, read, suite_findings(read.model, file.stem, landed, delta))
            if read.whole is not None and file.stem == read.whole.table:
                suites[read.whole.table] = read.whole
        return suites

    def _cross(self, finding: ProjectFinding, settings: Document | None) -> None:
        file, document = self.documents[finding.owner]
        path: Path_ = written_path(finding.path, document.data)
        if not document.has(path) and settings is not None and settings.has(("defaults", *path)):
            file, document, path = self.project.settings_file, settings, ("defaults", *path)
        place = document.place(path, key=finding.key)
        self.files.add(
            file, place.line, place.column, path, finding.message, finding.value,
            warning=finding.severity == "warning",
        )  # fmt: skip


def _declared_drivers(project: Project, settings: Document | None) -> frozenset[str] | None:
    """The drivers that conf/lakeward.yaml declares, valid or not; None if they cannot be read."""
    if settings is None:
        return frozenset() if absent(project.settings_file) else None
    written = settings.data.get("drivers", {})
    return frozenset(map(str, written)) if isinstance(written, dict) else None
