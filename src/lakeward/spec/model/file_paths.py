"""Paths of file sources: where they read, and where they archive."""

from __future__ import annotations

import re
from typing import Final

_PATTERN = "*?[{"
_LOCAL: Final = re.compile(r"^file:(?://)?(?=/)")


def local(path: str) -> str:
    """A local path without its scheme: `file:/in`, `file:///in` and `/in` are one folder. Other paths stay."""
    return _LOCAL.sub("", path)


def here(path: str) -> bool:
    """Whether a path is on the driver's machine."""
    return "://" not in local(path)


def on_s3(path: str) -> bool:
    """Whether a path is on an object store."""
    return path.startswith(("s3://", "s3a://"))


def elsewhere(path: str) -> bool:
    """Whether a path is neither on the driver's machine nor on an object store."""
    return not here(path) and not on_s3(path)


def hadoop(path: str) -> str:
    """A path as Spark's own readers name it."""
    return path.replace("s3://", "s3a://", 1) if path.startswith("s3://") else path


def folder_of(path: str) -> str:
    """The folder of a path or pattern: everything before the first part with a wildcard."""
    parts = local(path).rstrip("/").split("/")
    plain = next((index for index, part in enumerate(parts) if any(sign in part for sign in _PATTERN)), len(parts))
    return "/".join(parts[:plain])


def archive_of(path: str) -> str:
    """The archive folder, beside the source folder; each file keeps its full path below it."""
    return folder_of(path) + ".archived"
