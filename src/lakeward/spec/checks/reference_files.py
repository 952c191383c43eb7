"""Files of reference tables: whether they exist and can be read again at the interval."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.messages import Finding
from lakeward.spec.read.problems import nearest


def exists(file: Path, what: Callable[[Path], bool] = Path.exists) -> bool:
    """Whether the file exists; False for a name that no file can have."""
    try:
        return what(file)
    except (OSError, ValueError):  # too long, or a NUL in it
        return False


def unreachable(file: Path) -> str | None:
    """Why an existing file cannot be read; None if it can be read, or does not exist."""
    try:
        file.stat()
    except FileNotFoundError:
        return "it is a link to nowhere" if file.is_symlink() else None
    except OSError as error:
        return error.strerror if error.errno in (errno.ELOOP, errno.EACCES) else None
    except ValueError:
        return None
    return None


def _other_files(file: Path) -> list[Path]:
    """The files of the same folder, if the folder is readable."""
    try:
        return list(file.parent.iterdir())
    except (OSError, ValueError):
        return []


def reference_findings(spec: StreamSpec, project: Path) -> Iterator[Finding]:
    """Files that do not exist, or that cannot be a reference table."""
    for name, reference in spec.reference.items():
        path = reference.csv or reference.parquet
        if path is None:
            continue
        at = ("reference", name, reference.kind)
        if "://" in path:
            if reference.csv:
                message = "a CSV must be a local file: changes behind an address cannot be detected"
                yield Finding(at, message, path)
            continue
        file = project / path
        if why := unreachable(file):
            yield Finding(at, f"{path} cannot be read: {why}", path)
        elif not exists(file):
            there = [str(Path(path).parent / other.name) for other in _other_files(file)]
            yield Finding(at, f"there is no such file in the project: {path}", path,
                          tuple(sorted(there)[:10]), nearest(path, there))  # fmt: skip
        elif reference.csv and file.is_dir():
            yield Finding(at, f"{path} is a folder; a CSV is one file", path)
        elif reference.csv and file.stat().st_size == 0:
            yield Finding(at, f"{path} is empty; a CSV must have a header", path)
