"""Where a source of files reads, and where it puts what it has read."""

from __future__ import annotations

_PATTERN = "*?[{"


def local(path: str) -> str:
    """A path of this machine without its scheme."""
    return path.removeprefix("file://")


def here(path: str) -> bool:
    """Whether a path is one of the driver's machine."""
    return "://" not in local(path)


def on_s3(path: str) -> bool:
    """Whether a path is one of an object store."""
    return path.startswith(("s3://", "s3a://"))


def elsewhere(path: str) -> bool:
    """Whether a path is neither of the driver's machine nor of an object store."""
    return not here(path) and not on_s3(path)


def hadoop(path: str) -> str:
    """A path as Spark's own readers name it."""
    return path.replace("s3://", "s3a://", 1) if path.startswith("s3://") else path


def folder_of(path: str) -> str:
    """The folder of a path or pattern: everything before the first part that holds a sign of a pattern."""
    parts = local(path).rstrip("/").split("/")
    plain = next((index for index, part in enumerate(parts) if any(sign in part for sign in _PATTERN)), len(parts))
    return "/".join(parts[:plain])


def archive_of(path: str) -> str:
    """Where files go that are archived: beside the folder that is read, each below its whole path."""
    return folder_of(path) + ".archived"
