"""The project's own Python code, read and never run: the file of a named function and everything it imports.

The code is in `python/` of the project. The modules that a stream's function needs are stored in the stream's
generation as text, so that a rollback needs no checkout, and a change of another module changes no generation.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from lakeward.platform.runtime import resolved
from lakeward.spec.checks.secrets import holds_token
from lakeward.spec.checks.stream import LEAKS, installed
from lakeward.spec.model.types import PythonCallable
from lakeward.spec.read.problems import nearest

FOLDER = "python"
"""The folder of a project's Python; module names are relative to it."""
MOST_BYTES = 1_000_000
_Function = ast.FunctionDef | ast.AsyncFunctionDef
Arguments = Callable[[ast.FunctionDef, Path], "Iterator[Wrong]"]
"""Checks the parameters of a function; takes the function and its file."""


@dataclass(frozen=True)
class Wrong:
    """One problem of the code. `file` is None if the stream's own file names something that does not exist."""

    message: str
    file: Path | None = None
    line: int = 1
    column: int = 1
    value: str | None = None
    valid: tuple[str, ...] = ()
    nearest: str | None = None
    warning: bool = False


@dataclass
class Code:
    """The modules that one function needs.

    Args:
        root: the folder of the project's Python.
        text: reads a file; None if it cannot be read, which is then already reported.
        brought: packages come with the code, so that a package missing here is not a problem.

    Attributes:
        files: path below `root`, with slashes -> text.
        wrong: their problems.
    """

    root: Path
    text: Callable[[Path], str | None]
    brought: bool = False
    files: dict[str, str] = field(default_factory=dict)
    wrong: list[Wrong] = field(default_factory=list)
    _trees: dict[str, ast.Module] = field(default_factory=dict)

    def holds(self, name: PythonCallable) -> bool:
        """Whether the function's module is in the project's own folder."""
        return self._ours(name.partition(":")[0])

    def gather(self, name: PythonCallable, arguments: Arguments) -> None:
        """Read the function's module and everything of the project that it imports, and check its arguments."""
        module, _, function = name.partition(":")
        if not self._there(module):
            known = sorted(self._modules())
            what = f"there is no module {module} in {FOLDER}/"
            self.wrong.append(Wrong(what, value=module, valid=tuple(known), nearest=nearest(module, known)))
            return
        pending, seen = [module], set[str]()
        while pending:
            current = pending.pop()
            if current not in seen:
                seen.add(current)
                pending += self._read(current)
        if sum(map(len, self.files.values())) > MOST_BYTES:
            self.wrong.append(Wrong(f"{name} imports more than {MOST_BYTES:,} characters of the project's own Python"))
        tree = self._trees.get(module)
        if tree is not None:
            self.wrong += _of_function(tree, self._place(module) or self.root, function, arguments)

    def _place(self, module: str) -> Path | None:
        """The file of a module; None for a folder without one, or if it does not exist."""
        base = self.root.joinpath(*module.split("."))
        candidates = (base / "__init__.py", base.with_name(f"{base.name}.py"))
        return next((file for file in candidates if file.is_file()), None)

    def _there(self, module: str) -> bool:
        return self._place(module) is not None or any(self.root.joinpath(*module.split(".")).glob("*.py"))

    def _ours(self, module: str) -> bool:
        """Whether the first part of a name is in the project's own folder."""
        first = module.partition(".")[0]
        return bool(first) and (self._place(first) is not None or (self.root / first).is_dir())

    def _modules(self) -> Iterator[str]:
        for file in self.root.rglob("*.py"):
            parts = file.relative_to(self.root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _read(self, module: str) -> list[str]:
        """Add a module and its parent packages; returns the project's modules that they import."""
        modules: list[str] = []
        parts = module.split(".")
        for length in range(1, len(parts) + 1):
            own = ".".join(parts[:length])
            file = self._place(own)
            if file is None or own in self._trees:
                continue
            if not resolved(file).is_relative_to(self.root.parent):
                self.wrong.append(Wrong("this file is outside the project", file))
                continue
            text = self.text(file)
            if text is None:
                continue
            if holds_token(text):
                self.wrong.append(Wrong(LEAKS, file))
            try:
                tree = ast.parse(text)
            except SyntaxError as error:
                self.wrong.append(Wrong(f"this is not Python: {error.msg}", file, error.lineno or 1, error.offset or 1))
                continue
            self._trees[own] = tree
            self.files[PurePosixPath(file.relative_to(self.root)).as_posix()] = text
            modules += self._imports(own, file, tree)
        return modules

    def _imports(self, module: str, file: Path, tree: ast.Module) -> Iterator[str]:
        package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        for node, inside in _import_nodes(tree):
            for imported, names in _imported(node, package):
                if not self._ours(imported):
                    if not self.brought and not installed(imported.partition(".")[0]):
                        what = (
                            f"package {imported.partition('.')[0]} is not installed here; it must be where the driver"
                        )
                        self._report(node, file, f"{what} and its executors run", imported, warning=True)
                    continue
                if inside:
                    what = f"import {imported} at the top of the file: executors lack what a function imports"
                    self._report(node, file, what, imported)
                if not self._there(imported):
                    self._report(node, file, f"there is no module {imported} in {FOLDER}/", imported)
                    continue
                yield imported
                yield from (f"{imported}.{name}" for name in names if self._there(f"{imported}.{name}"))

    def _report(self, node: ast.stmt, file: Path, message: str, value: str, *, warning: bool = False) -> None:
        self.wrong.append(Wrong(message, file, node.lineno, node.col_offset + 1, value, warning=warning))


def _import_nodes(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import, and whether it runs only when a function is called."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, inside
        else:
            yield from _import_nodes(node, inside or isinstance(node, _Function))


def _imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, list[str]]]:
    """The full names of the imported modules, each with the names imported from it."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, []) for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, *([base] if base else [])])
    yield base, [alias.name for alias in node.names]


def _of_function(tree: ast.Module, file: Path, name: str, arguments: Arguments) -> Iterator[Wrong]:
    """Problems of a plain function. One that is created in another way is left to Spark's check."""
    functions = {node.name: node for node in tree.body if isinstance(node, _Function)}
    node = functions.get(name)
    if node is None:
        if not _bound(tree) & {name, "*"}:
            known = [function for function in functions if not function.startswith("_")]
            yield Wrong(
                f"{file.name} has no function {name}", value=name, valid=tuple(known), nearest=nearest(name, known)
            )
        return
    if isinstance(node, ast.AsyncFunctionDef):
        yield Wrong("an async function is never awaited; write def", file, *_at(node), name)
    elif not node.decorator_list:
        yield from arguments(node, file)


def _at(node: _Function) -> tuple[int, int]:
    return node.lineno, node.col_offset + 1


def takes_frames(sources: Collection[str], reference: Collection[str]) -> Arguments:
    """Parameters of a transform: sources and references, by name."""

    def arguments(node: ast.FunctionDef, file: Path) -> Iterator[Wrong]:
        name, at = node.name, _at(node)
        taken, every = node.args, (*node.args.args, *node.args.kwonlyargs)
        known = [*sources, *reference]
        for arg in taken.posonlyargs:
            what = "sources and references are given by name, and a parameter before / cannot be named"
            yield Wrong(what, file, arg.lineno, arg.col_offset + 1, arg.arg)
        optional = {arg.arg for arg in _with_default(taken)}
        for arg in every:
            if arg.arg not in known and arg.arg not in optional:
                what = f"argument {arg.arg} is neither a source nor a reference of this stream"
                yield Wrong(what, file, arg.lineno, arg.col_offset + 1, arg.arg, tuple(known), nearest(arg.arg, known))
        names = {arg.arg for arg in (*taken.posonlyargs, *every)}
        if taken.kwarg is None:
            for source in sources:
                if source not in names:
                    yield Wrong(f"source {source} is declared, but {name} does not take it", file, *at, source)
            for table in reference:
                if table not in names:
                    what = f"reference {table} is declared, but {name} does not take it"
                    yield Wrong(what, file, *at, table, warning=True)

    return arguments


def takes_batch(node: ast.FunctionDef, file: Path) -> Iterator[Wrong]:
    """Parameters of a sink: the rows and the batch, by position."""
    taken = node.args
    by_place, optional = [*taken.posonlyargs, *taken.args], {arg.arg for arg in _with_default(taken)}
    needed = [arg.arg for arg in (*by_place[2:], *taken.kwonlyargs) if arg.arg not in optional]
    if needed or (len(by_place) < 2 and taken.vararg is None):
        what = f"{node.name} is called with two arguments, the rows and the batch; write def {node.name}(df, batch)"
        yield Wrong(what, file, *_at(node), needed[0] if needed else node.name)


def takes_any(node: ast.FunctionDef, file: Path) -> Iterator[Wrong]:
    """Parameters of a function that SQL calls: any number, by position."""
    optional = {arg.arg for arg in _with_default(node.args)}
    for arg in node.args.kwonlyargs:
        if arg.arg not in optional:
            what = "SQL passes arguments by position, and this parameter is keyword-only"
            yield Wrong(what, file, arg.lineno, arg.col_offset + 1, arg.arg)


def takes_series(node: ast.FunctionDef, file: Path) -> Iterator[Wrong]:
    """The same for a pandas UDF: Spark needs the type hints."""
    yield from takes_any(node, file)
    taken = [*node.args.posonlyargs, *node.args.args, *([node.args.vararg] if node.args.vararg else [])]
    if node.returns is None or any(arg.annotation is None for arg in taken):
        what = f"a pandas function needs type hints: def {node.name}(a: pd.Series) -> pd.Series"
        yield Wrong(what, file, *_at(node), node.name)


def _with_default(taken: ast.arguments) -> list[ast.arg]:
    by_place = [*taken.posonlyargs, *taken.args]
    named = [arg for arg, value in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if value is not None]
    return [*by_place[len(by_place) - len(taken.defaults) :], *named]


def _bound(tree: ast.Module) -> set[str]:
    """Names that a module binds beside plain functions; `*` for a star import."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def module_names(files: Mapping[str, str]) -> dict[str, str]:
    """Module -> its file among `files`."""
    names = {}
    for path in files:
        parts = PurePosixPath(path).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def digest_of(files: Mapping[str, str]) -> str:
    """Digest of these files and their content, 12 hexadecimal digits."""
    whole = hashlib.sha256()
    for path, text in sorted(files.items()):
        whole.update(f"{path}\0{len(text)}\0{text}".encode())
    return whole.hexdigest()[:12]
