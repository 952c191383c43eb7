"""A table must have its folder to itself: expiry and orphan removal delete files under it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "file": ""}


def canonical(location: str) -> str:
    """A location with one spelling per place: no `file:`, `s3` for its variants, one slash at the end."""
    scheme, mark, rest = location.partition(":")
    if not mark or "/" in scheme:
        scheme, rest = "", location
    scheme = _SAME_SCHEME.get(scheme, scheme)
    path = "/" + rest.strip("/") if not scheme else rest.strip("/")
    return (f"{scheme}://" if scheme else "") + path + "/"


def intruder(table: str, location: str, tables: Mapping[str, str | None], checkpoints: Iterable[str]) -> str:
    """Why the table may not be maintained; empty when it has its folder to itself.

    Args:
        table: its name; `tables` may hold it too.
        location: its folder.
        tables: other tables and their folders.
        checkpoints: folders of checkpoints.
    """
    own = canonical(location)
    for name, other in sorted(tables.items()):
        if other and name != table and canonical(other).startswith(own):
            return f"table {name} lies under its location ({other}): maintenance of one could delete files of the other"
        if other and name != table and own.startswith(canonical(other)):
            return f"it lies under the location of table {name} ({other})"
    for checkpoint in checkpoints:
        if canonical(checkpoint).startswith(own):
            return f"a checkpoint lies under its location ({checkpoint}): orphan removal would delete it"
    return ""
