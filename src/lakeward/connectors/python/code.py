"""Python that a generation carries: run from its stored text, never from the working tree, and apart by digest.

The modules of one generation are named below a package of their own (`_lakeward_<digest>`), and what they import of
each other is found there: two generations of one module live side by side in a driver, and nothing else sees either.
Functions and classes of these modules go to Python workers by value, so that an executor needs no file of theirs.
See docs/adr/0029.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import LakewardError
from lakeward.spec.model.transform import Transform
from lakeward.spec.python.code import FOLDER, digest_of, module_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PREFIX = "_lakeward_"
_FRAME = re.compile(rf'File "{_PREFIX}(\w+)/([^"]+)", line (\d+), in (\S+)')
_CODE = re.compile(r"^\[[A-Z_.0-9]+\] |\s*SQLSTATE: \w+")
_PLACE = re.compile(rf"^  ({FOLDER}/[^:]+):(\d+)", re.MULTILINE)
MOST_FRAMES = 4
_lock = threading.RLock()
_known: dict[str, Modules] = {}


class UserCodeFailed(LakewardError):
    """Raised when a function of the project's own fails, or is none; `why` holds the frames of its own code.

    Attributes:
        place: file and line of the innermost of them, where there is one.
    """

    place: tuple[str, int] | None = None


class Modules:
    """The modules of one digest."""

    def __init__(self, digest: str, files: Mapping[str, str]) -> None:
        self.root = f"{_PREFIX}{digest}"
        self._files = files
        self._names = module_names(files)
        for name in list(self._names):  # packages without a file of their own
            parts = name.split(".")
            for length in range(1, len(parts)):
                self._names.setdefault(".".join(parts[:length]), "")
        self._builtins = {**vars(builtins), "__import__": self._import}
        sys.modules[self.root] = package = ModuleType(self.root)
        package.__path__ = []
        from pyspark.cloudpickle import register_pickle_by_value

        register_pickle_by_value(package)  # type: ignore[no-untyped-call]  # holds for all below it

    def load(self, name: str) -> ModuleType:
        """A module by the name its own project knows it by, e.g. `my_streams.clean`."""
        full = f"{self.root}.{name}"
        known = sys.modules.get(full)
        if known is not None:
            return known
        if name not in self._names:
            raise ModuleNotFoundError(f"No module named {name!r} among the modules this stream was deployed with")
        above, _, leaf = name.rpartition(".")
        around = self.load(above) if above else sys.modules[self.root]
        if full in sys.modules:  # the package imports it by itself
            return sys.modules[full]
        path = self._names[name]
        module = ModuleType(full)
        is_package = not path or path.endswith("__init__.py")
        module.__package__ = full if is_package else full.rpartition(".")[0]
        if is_package:
            module.__path__ = []
        module.__dict__["__builtins__"] = self._builtins
        sys.modules[full] = module
        try:
            if path:
                module.__file__ = shown = f"{self.root}/{path}"
                text = self._files[path]
                linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)
                exec(compile(text, shown, "exec", dont_inherit=True), module.__dict__)  # noqa: S102  # the user's code
        except BaseException:
            del sys.modules[full]
            raise
        setattr(around, leaf, module)
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """What `import` does in these modules: their own from here, all others as ever."""
        if level:
            package = str((globals or {}).get("__package__")).split(".")
            above = package[1 : len(package) - level + 1]
            name = ".".join([*above, *([name] if name else [])])
        elif name.partition(".")[0] not in self._names:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        with _lock:
            module = self.load(name)
            if not fromlist:
                return self.load(name.partition(".")[0])
            for each in fromlist:
                if not hasattr(module, each) and f"{name}.{each}" in self._names:
                    self.load(f"{name}.{each}")
        return module


def load(name: str, files: Mapping[str, str] | None) -> Callable[..., object]:
    """The function `module:function` of these modules.

    Raises:
        UserCodeFailed: its module fails when it is imported, or has no such function.
    """
    if files is None:
        raise UserCodeFailed(
            f"{name} cannot be run", why="its code was not deployed with it", next="lakeward deploy", code="LW-3147"
        )
    module, _, function = name.partition(":")
    with failing(name), _lock:
        digest = digest_of(files)
        if digest not in _known:
            _known[digest] = Modules(digest, files)
        found = getattr(_known[digest].load(module), function, None)
    if not callable(found):
        raise UserCodeFailed(
            f"{name} is no function", why=f"module {module} has no function {function}", code="LW-3148"
        )
    made: Callable[..., object] = found
    return made


def call(transform: Transform, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The DataFrame that the function makes of `frames`: sources and references by name.

    Raises:
        UserCodeFailed: it cannot be imported or called, fails, or gives something else.
    """
    from pyspark.sql import DataFrame

    name = str(transform.python)
    function = load(name, transform.code)
    with failing(name):
        made = function(**_taken(function, frames))
    if not isinstance(made, DataFrame):
        raise UserCodeFailed(
            f"{name} gives no DataFrame", why=f"it gives {type(made).__name__}; a function returns one", code="LW-3149"
        )
    return made


@contextmanager
def failing(name: str) -> Iterator[None]:
    """Tell whatever the user's code raises as its own.

    Raises:
        UserCodeFailed: it raised something.
    """
    try:
        yield
    except Exception as error:  # the boundary to the user's code
        failed = UserCodeFailed(f"{name} fails", why=told(error), code="LW-3150")
        if found_at := list(_PLACE.finditer(failed.why)):
            failed.place = found_at[-1][1], int(found_at[-1][2])
        raise failed from error


def _taken(function: Callable[..., object], frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Of the frames those the function takes."""
    arguments = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in arguments):
        return dict(frames)
    names = {each.name for each in arguments}
    return {name: frame for name, frame in frames.items() if name in names}


def told(error: BaseException) -> str:
    """An exception in short: its first line, then the frames of the project's own code, innermost last."""
    within = told_within(str(error))
    if within is not None:  # raised on a Python worker; its trace came as text
        return within
    first = str(error).strip().splitlines()[:1] or [""]
    frames = [
        _frame(each.filename.partition("/")[2], each.lineno or 0, each.name, each.line)
        for each in traceback.extract_tb(error.__traceback__)
        if each.filename.startswith(_PREFIX)
    ]
    if isinstance(error, SyntaxError) and str(error.filename).startswith(_PREFIX):
        frames.append(_frame(str(error.filename).partition("/")[2], error.lineno or 0, "", error.text))
    said = _CODE.sub("", first[0]).rstrip(" ;")
    return "\n".join([f"{type(error).__name__}: {said}"[:500], *frames[-MOST_FRAMES:]])


def told_within(text: str) -> str | None:
    """The same of a worker's trace that stands in `text`; None where the project's own code is not in it."""
    frames = list(_FRAME.finditer(text))
    if not frames:
        return None
    after = text[frames[-1].end() :].splitlines()
    raised = next((line.strip() for line in after if line.strip() and not line.startswith(" ")), "it failed")
    lines = []
    for each in frames[-MOST_FRAMES:]:
        line = linecache.getline(f"{_PREFIX}{each[1]}/{each[2]}", int(each[3]))
        lines.append(_frame(each[2], int(each[3]), each[4], line))
    return "\n".join([raised[:500], *lines])


def _frame(path: str, line: int, function: str, text: str | None) -> str:
    where = f"  {FOLDER}/{path}:{line}{f' in {function}' if function else ''}"
    return f"{where}: {text.strip()[:200]}" if text and text.strip() else where
