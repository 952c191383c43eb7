"""Where a source of files reads, and where it puts what it has read."""

from __future__ import annotations

_PATTERN = "*?[{"


def local(path: str) -> str:
    """A path of this machine without its scheme."""
    return path.removeprefix("file://")


def elsewhere(path: str) -> bool:
    """Whether a path is on another machine's file system or an object store."""
    return "://" in local(path)


def folder_of(path: str) -> str:
    """The folder of a path or pattern: everything before the first part that holds a sign of a pattern."""
    parts = local(path).rstrip("/").split("/")
    plain = next((index for index, part in enumerate(parts) if any(sign in part for sign in _PATTERN)), len(parts))
    return "/".join(parts[:plain])


def archive_of(path: str) -> str:
    """Where files go that are archived: beside the folder that is read, each below its whole path."""
    return folder_of(path) + ".archived"
