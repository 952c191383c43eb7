"""Python in a stream's file: the modules of its functions, and the packages they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lakeward.platform.runtime import Project, resolved
from lakeward.spec.checks import stream
from lakeward.spec.checks.reference_files import exists
from lakeward.spec.checks.secrets import holds_token
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.model.types import PythonCallable
from lakeward.spec.python import packages
from lakeward.spec.python.code import Arguments, Code, takes_any, takes_batch, takes_frames, takes_series
from lakeward.spec.read.document import Document, Path_
from lakeward.spec.read.files import Files
from lakeward.spec.read.messages import Finding
from lakeward.spec.read.problems import nearest

_Functions = list[tuple[Path_, PythonCallable, Arguments]]


@dataclass(frozen=True)
class PythonReader:
    """Reads what the functions of one stream need.

    Args:
        follows: reports a finding of the stream's own file, unless it only follows from another one.
        doubtful: paths of the spec that cannot be checked.
    """

    project: Project
    files: Files
    follows: Callable[[Finding], None]
    doubtful: frozenset[Path_]

    def code(self, spec: StreamSpec) -> Iterator[tuple[str, dict[str, str]]]:
        """`transform` and `sink`, if they are Python, each with its modules: path below `python/` -> text."""
        for part, functions in (("transform", _of_transform(spec)), ("sink", self._of_sink(spec))):
            checked = [function for function in functions if function[0] not in self.doubtful]
            if checked:
                yield part, self._gather(checked, brought=spec.requirements is not None)

    def packages(self, spec: StreamSpec, document: Document | None) -> tuple[str, ...] | None:
        """The lines of the requirements file."""
        name, at = spec.requirements, ("requirements",)
        if name is None:
            return None
        if spec.transform.python is None and spec.sink.python is None and not spec.transform.udfs:
            if document is None or document.has(at):  # else a default of all streams, for those with Python
                message = "requirements are for Python, and this stream has no Python function"
                self.follows(Finding(at, message, name))
            return None
        file = resolved(self.project.python / name)
        if not file.is_relative_to(self.project.python) or not exists(file, Path.is_file):
            there = sorted(path.name for path in self.project.python.glob("*.txt"))
            message = f"there is no file {name} in {self.files.name(self.project.python)}/"
            self.follows(Finding(at, message, name, tuple(there), nearest(name, there)))
            return None
        if (text := self.files.text(file)) is None:
            return None
        if holds_token(text):
            self.files.whole(file, stream.LEAKS)
        lines, wrong = packages.read(text)
        for problem in wrong:
            self.files.add(file, problem.line, 1, at, problem.message, problem.value)
        return lines

    def _of_sink(self, spec: StreamSpec) -> _Functions:
        name = spec.sink.python
        if name is None:
            return []
        package = name.partition(":")[0].partition(".")[0]
        if stream.installed(package) and not Code(self.project.python, self.files.text).holds(name):
            return []  # it is installed, and is imported from there
        return [(("sink", "python"), name, takes_batch)]

    def _gather(self, functions: _Functions, *, brought: bool) -> dict[str, str]:
        """The modules of some functions; reports their problems at their position."""
        code = Code(self.project.python, self.files.text, brought=brought)
        for at, name, arguments in functions:
            before = len(code.wrong)
            code.gather(name, arguments)
            for problem in code.wrong[before:]:
                if problem.file is None:
                    self.follows(Finding(at, problem.message, problem.value, problem.valid, problem.nearest,
                                         warning=problem.warning))  # fmt: skip
                else:
                    self.files.add(problem.file, problem.line, problem.column, at, problem.message, problem.value,
                                   problem.valid, problem.nearest, warning=problem.warning)  # fmt: skip
        return code.files


def _of_transform(spec: StreamSpec) -> _Functions:
    transform = spec.transform
    if transform.python is not None:
        takes = takes_frames(list(map(str, spec.sources)), list(map(str, spec.reference)))
        return [(("transform", "python"), transform.python, takes)]
    return [
        (("transform", "udfs", name, "python"), udf.python, takes_series if udf.pandas else takes_any)
        for name, udf in (transform.udfs or {}).items()
    ]
