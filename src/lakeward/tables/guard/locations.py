"""Comparison of file locations. A table must be alone in its folder: expiry and orphan removal delete files in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "file": ""}


def canonical(location: str) -> str:
    """A canonical spelling of a location: no `file:`, `s3` for its variants, one slash at the end.

    On a disk also without `.`, `..` and doubled slashes, which an object store takes for parts of a key.
    """
    scheme, rest = _parts(location)
    if scheme:
        return f"{scheme}://{rest.strip('/')}/"
    path = "/" + rest.strip("/")
    return (os.path.normpath(path) if "//" in path or "/." in path else path).rstrip("/") + "/"


def _parts(location: str) -> tuple[str, str]:
    """Scheme and rest; no scheme for a path on a disk."""
    scheme, mark, rest = location.partition(":")
    if not mark or "/" in scheme:
        return "", location
    return _SAME_SCHEME.get(scheme.lower(), scheme.lower()), rest


def real(location: str) -> str:
    """A folder with its links resolved and one slash at the end; of an object store its canonical spelling."""
    scheme, rest = _parts(location)
    return canonical(location) if scheme else _real("/" + rest.strip("/")).rstrip("/") + "/"


def nested(folder: str, other: str) -> bool:
    """Whether a folder is another one or below it, by its spelling or through links."""
    (spelled, resolved), (other_spelled, other_resolved) = _spellings(folder), _spellings(other)
    return spelled.startswith(other_spelled) or resolved.startswith(other_resolved)


@lru_cache(maxsize=32768)
def _spellings(location: str) -> tuple[str, str]:
    """Its canonical spelling and its real folder: an observation compares each table with every other one."""
    return canonical(location), real(location)


def relative(path: str, location: str) -> str | None:
    """A file's path below a location; None if it is elsewhere."""
    own, here = canonical(location), canonical(path).rstrip("/")
    return here.removeprefix(own) if here.startswith(own) else None


def mismatch(path: str, location: str) -> bool:
    """Whether a file with a path elsewhere may still be below the location.

    The same path in another scheme, bucket or host may be the same place. On a local disk a path may also reach the
    location through a link.
    """
    if relative(path, location) is not None:
        return False
    own, bare = (urlsplit(each).path.strip("/") for each in (location, path))
    if bare.startswith(own + "/"):
        return True
    if "://" in canonical(path) or "://" in canonical(location):
        return False
    return nested(path.rpartition("/")[0], location)


@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def overlap(
    table: str,
    location: str,
    tables: Mapping[str, str | None],
    checkpoints: Iterable[str],
    folders: Mapping[str, str] | None = None,
) -> str:
    """Why the table must not be maintained; empty when it is alone in its folder.

    Args:
        table: its name; `tables` may hold it too.
        location: its folder.
        tables: other tables and their folders.
        checkpoints: folders of checkpoints.
        folders: other folders -> what is in them, as a clause.
    """
    for name, other in sorted(tables.items()):
        if other and name != table and nested(other, location):
            return f"table {name} lies under its location ({other}): maintenance of one could delete files of the other"
        if other and name != table and nested(location, other):
            return f"it lies under the location of table {name} ({other})"
    for checkpoint in checkpoints:
        if nested(checkpoint, location):
            return f"a checkpoint lies under its location ({checkpoint}): orphan removal would delete it"
    for folder, what in (folders or {}).items():
        if nested(folder, location):
            return f"{what} lie under its location ({folder}): orphan removal or VACUUM would delete them"
    return ""
