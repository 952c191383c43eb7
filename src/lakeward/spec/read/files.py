"""Reads the files of a project and reports their problems with positions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeward.spec.checks.reference_files import exists
from lakeward.spec.checks.secrets import hidden, hides_secret, looks_secret, masked
from lakeward.spec.checks.stream import secret_findings
from lakeward.spec.read.document import Document, Path_, place_of, read_document
from lakeward.spec.read.messages import Finding
from lakeward.spec.read.problems import Problem, shown
from lakeward.telemetry.mask import MASK

_LARGEST_FILE = 1_000_000
_YAML = (".yaml", ".yml")


@dataclass
class Files:
    """Reads files of a project and collects their problems with positions."""

    root: Path
    problems: list[Problem] = field(default_factory=list)

    def name(self, file: Path) -> str:
        """The path of the file in problems: relative to the project."""
        return file.relative_to(self.root).as_posix() if file.is_relative_to(self.root) else str(file)

    def report_misnamed(self, file: Path) -> None:
        """Report files with the name of this settings file and another extension: they are not read."""
        for other in sorted(file.parent.glob(f"{file.stem}.*")) if exists(file.parent, Path.is_dir) else ():
            if other.name != file.name:
                self.report_ignored(other)

    def report_ignored(self, file: Path) -> None:
        """Report a file that looks like a spec but is in a folder or has a name that is not read."""
        if file.suffix.lower() in _YAML:
            self.whole(file, f"this file is not read: its name must end in .yaml; rename it to {file.stem}.yaml")
        elif exists(file, Path.is_dir) and not file.name.startswith("."):
            for inner in sorted(path for path in file.rglob("*") if path.suffix.lower() in _YAML):
                self.whole(
                    inner, f"this file is not read: specs must be in {self.name(file.parent)} itself; move it there"
                )

    def listing(self, folder: Path) -> list[Path] | None:
        """The entries of a folder, sorted; empty with a problem if it cannot be read; None if it does not exist.

        Names that begin with a dot belong to editors (locks, copies) and are ignored.
        """
        try:
            return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.whole(folder, f"this folder cannot be read: {error.strerror or error}")
            return []

    def text(self, file: Path) -> str | None:
        """The file's text, or None with a problem."""
        try:
            if file.stat().st_size > _LARGEST_FILE:
                self.whole(file, "this file is too large for a spec: more than 1 MB")
                return None
            text = file.read_text(encoding="utf-8-sig")
            if "\x00" not in text:  # PostgreSQL cannot store it
                return text
            place = place_of(text, text.index("\x00"))
            self.add(file, place.line, place.column, (), "this is not text: it contains a NUL character")
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode("utf-8", "replace")
            place = place_of(before, len(before))
            self.add(file, place.line, place.column, (), f"this is not UTF-8 text: byte {error.start}")
        except OSError as error:
            self.whole(file, f"this file cannot be read: {error.strerror or error}")
        return None

    def document(self, file: Path) -> Document | None:
        """The file as data with positions, or None with problems; YAML faults are always reported."""
        text = self.text(file)
        if text is None:
            return None
        document = read_document(text)
        for fault in document.faults:
            self.add(file, fault.place.line, fault.place.column, fault.path, fault.message, fault.value)
        if document.data is None:
            if not document.faults:
                self.whole(file, "this file is empty")
            return None
        if not isinstance(document.data, dict):
            self.whole(file, "this must be a mapping (key: value)")
            return None
        for finding in secret_findings(document.data):
            self.found(file, document, finding)
        return document

    @property
    def errors(self) -> int:
        """Number of errors so far, without warnings."""
        return sum(problem.severity == "error" for problem in self.problems)

    def whole(self, file: Path, message: str) -> None:
        """A problem of a file as a whole."""
        self.add(file, 1, 1, (), message)

    def found(self, file: Path, document: Document, finding: Finding, path: Path_ | None = None) -> None:
        """Report a finding as a problem at its position in the file."""
        where = finding.path if path is None else path
        place = document.place(where, key=finding.key)
        if finding.at is not None:
            place = document.inside(where, *finding.at)
        self.add(
            file, place.line, place.column, where, finding.message, finding.value, finding.valid, finding.nearest,
            warning=finding.warning,
        )  # fmt: skip

    def add(
        self, file: Path, line: int, column: int, path: Path_, message: str, value: Any = None,
        valid: Iterable[str] = (), nearest: str | None = None, *, warning: bool = False,
    ) -> None:  # fmt: skip
        """Report one problem. A possible secret is not shown in the value, the message or the path."""
        secret = hidden(path, value)
        if looks_secret(value) or any(hides_secret(part) for part in path if isinstance(part, str)):
            value = None
        self.problems.append(
            Problem(
                self.name(file), line, column, dotted(tuple(MASK if part in secret else part for part in path)),
                masked(message, secret), shown(value), tuple(masked(word) for word in valid),
                None if looks_secret(nearest) else nearest, "warning" if warning else "error",
            )
        )  # fmt: skip


def dotted(path: Path_) -> str:
    """A path for display: `sink.iceberg.partition_by[1]`, `spark[spark.sql.shuffle.partitions]`."""
    text = ""
    for part in path:
        plain = isinstance(part, str) and "." not in part
        text += (f".{part}" if text else str(part)) if plain else f"[{part}]"
    return text
