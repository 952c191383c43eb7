"""User Python code of a generation: loaded from the text stored at deploy, never from the working tree.

The modules of one generation are below a package of their own (`_lakeward_<digest>`), where their imports of each
other are resolved. Therefore two generations of one module can run in one driver without seeing each other. Functions
and classes are pickled by value, so that executors need no files. See docs/adr/0029.
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
_CORRECT = "correct the code in python/, then: lakeward deploy"
_lock = threading.RLock()
_known: dict[str, Modules] = {}


class UserCodeFailed(LakewardError):
    """Raised when user code fails or is not a function; `why` has the stack frames of the user's code.

    Attributes:
        place: file and line of the innermost frame, if known.
    """

    place: tuple[str, int] | None = None


class Modules:
    """The modules of one code digest."""

    def __init__(self, digest: str, files: Mapping[str, str]) -> None:
        self.root = f"{_PREFIX}{digest}"
        self._files = files
        self._names = module_names(files)
        for name in list(self._names):  # namespace packages, without a file
            parts = name.split(".")
            for length in range(1, len(parts)):
                self._names.setdefault(".".join(parts[:length]), "")
        self._builtins = {**vars(builtins), "__import__": self._import}
        sys.modules[self.root] = package = ModuleType(self.root)
        package.__path__ = []
        from pyspark.cloudpickle import register_pickle_by_value

        register_pickle_by_value(package)  # type: ignore[no-untyped-call]  # applies to all modules below it

    def load(self, name: str) -> ModuleType:
        """Load a module by its name in the project, e.g. `my_streams.clean`."""
        full = f"{self.root}.{name}"
        known = sys.modules.get(full)
        if known is not None:
            return known
        if name not in self._names:
            raise ModuleNotFoundError(f"No module named {name!r} in the code that was deployed with this stream")
        above, _, leaf = name.rpartition(".")
        parent = self.load(above) if above else sys.modules[self.root]
        if full in sys.modules:  # the parent package imported it
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
        setattr(parent, leaf, module)
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """`__import__` of these modules: modules of the generation from here, all others as usual."""
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
            for member in fromlist:
                if not hasattr(module, member) and f"{name}.{member}" in self._names:
                    self.load(f"{name}.{member}")
        return module


def load(name: str, files: Mapping[str, str] | None) -> Callable[..., object]:
    """Load the function `module:function` from the files of a generation.

    Raises:
        UserCodeFailed: the import of the module fails, or it has no such function.
    """
    if files is None:
        raise UserCodeFailed(
            f"Cannot run {name}",
            why="its code was not deployed with the stream",
            next="lakeward deploy",
            code="LW-3147",
        )
    module, _, function = name.partition(":")
    with failing(name), _lock:
        digest = digest_of(files)
        if digest not in _known:
            _known[digest] = Modules(digest, files)
        loaded = getattr(_known[digest].load(module), function, None)
    if not callable(loaded):
        raise UserCodeFailed(
            f"{name} is not a function",
            why=f"module {module} has no function {function}",
            next=_CORRECT,
            code="LW-3148",
        )
    made: Callable[..., object] = loaded
    return made


def call(transform: Transform, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Call the transform's function with `frames` (sources and references by name); returns its DataFrame.

    Raises:
        UserCodeFailed: the import or the call fails, or the result is not a DataFrame.
    """
    from pyspark.sql import DataFrame

    name = str(transform.python)
    function = load(name, transform.code)
    with failing(name):
        made = function(**_taken(function, frames))
    if not isinstance(made, DataFrame):
        raise UserCodeFailed(
            f"{name} does not return a DataFrame",
            why=f"it returns {type(made).__name__}",
            next=_CORRECT,
            code="LW-3149",
        )
    return made


@contextmanager
def failing(name: str) -> Iterator[None]:
    """Convert exceptions of the user's code to `UserCodeFailed`.

    Raises:
        UserCodeFailed: the block raised an exception.
    """
    try:
        yield
    except Exception as error:  # the boundary to the user's code
        failed = UserCodeFailed(f"{name} failed", why=summary(error), next=_CORRECT, code="LW-3150")
        if places := list(_PLACE.finditer(failed.why)):
            failed.place = places[-1][1], int(places[-1][2])
        raise failed from error


def _taken(function: Callable[..., object], frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The frames that the function has parameters for."""
    arguments = inspect.signature(function).parameters.values()
    if any(argument.kind is argument.VAR_KEYWORD for argument in arguments):
        return dict(frames)
    names = {argument.name for argument in arguments}
    return {name: frame for name, frame in frames.items() if name in names}


def summary(error: BaseException) -> str:
    """An exception in short: its first line, then the frames of the user's code, innermost last."""
    on_worker = worker_summary(str(error))
    if on_worker is not None:  # raised on a Python worker; its stack trace is text
        return on_worker
    first = str(error).strip().splitlines()[:1] or [""]
    frames = [
        _frame(frame.filename.partition("/")[2], frame.lineno or 0, frame.name, frame.line)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(_PREFIX)
    ]
    if isinstance(error, SyntaxError) and str(error.filename).startswith(_PREFIX):
        frames.append(_frame(str(error.filename).partition("/")[2], error.lineno or 0, "", error.text))
    message = _CODE.sub("", first[0]).rstrip(" ;")
    return "\n".join([f"{type(error).__name__}: {message}"[:500], *frames[-MOST_FRAMES:]])


def worker_summary(text: str) -> str | None:
    """The same for the stack trace of a Python worker in `text`; None if it has no frame of the user's code."""
    frames = list(_FRAME.finditer(text))
    if not frames:
        return None
    after = text[frames[-1].end() :].splitlines()
    raised = next((line.strip() for line in after if line.strip() and not line.startswith(" ")), "it failed")
    lines = []
    for frame in frames[-MOST_FRAMES:]:
        line = linecache.getline(f"{_PREFIX}{frame[1]}/{frame[2]}", int(frame[3]))
        lines.append(_frame(frame[2], int(frame[3]), frame[4], line))
    return "\n".join([raised[:500], *lines])


def _frame(path: str, line: int, function: str, text: str | None) -> str:
    where = f"  {FOLDER}/{path}:{line}{f' in {function}' if function else ''}"
    return f"{where}: {text.strip()[:200]}" if text and text.strip() else where
