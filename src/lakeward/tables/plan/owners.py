"""Decides about files that may be another table's, before an expiry, a VACUUM or an erase deletes them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakeward.platform.text import count, listed
from lakeward.tables.plan.model import NotPlanned

_SHOWN = 3


def hint_refused(metadata_file: str) -> NotPlanned:
    """The refusal to let each commit delete the oldest metadata file while readers go by `version-hint.text`.

    Args:
        metadata_file: the version that it leads them to, which is not the current one.
    """
    return NotPlanned(
        "metadata",
        f"refused: version-hint.text leads readers without the catalog to {metadata_file}, which a later commit would "
        "delete; delete version-hint.text if nothing reads by it, or set the table's "
        "write.metadata.delete-after-commit.enabled yourself",
        refused=True,
    )


def metadata_refused(sharing: str) -> NotPlanned | None:
    """The refusal to let each commit delete the oldest metadata file where another table may begin there; None without.

    Args:
        sharing: which other table is in the table's folder, as a clause; empty for none.
    """
    if not sharing:
        return None
    why = (
        f"refused: {sharing}, and later commits would delete metadata files by which it may be read; drop one of the "
        "tables, or set write.metadata.delete-after-commit.enabled yourself"
    )
    return NotPlanned("metadata", why, refused=True)


def outside_refused(outside: Sequence[str], claims: Mapping[str, str]) -> NotPlanned | None:
    """The refusal of an expiry after which files outside of the table's location would be unreferenced; None without.

    Args:
        outside: such files.
        claims: file -> why it is another table's, as a clause.
    """
    if not outside:
        return None
    why = (
        f"refused: {count(len(outside), 'file')} outside of the table's location would go with the old snapshots "
        f"({_examples(outside, claims)}); set expire: {{outside_files: keep}} for this table in conf/tables.yaml to "
        "leave such files, or delete to remove those that no other table has"
    )
    return NotPlanned("expire", why, refused=True)


def vacuum_refused(named: Sequence[tuple[str, str]], sharing: str, unknown: str) -> NotPlanned | None:
    """The refusal of a VACUUM that would delete files of other tables; None without.

    Args:
        named: (file below the table's folder that no current version has, other table that names it).
        sharing: which other table is in the table's folder, as a clause; empty for none.
        unknown: why it is unknown which files other tables name; empty if it is known.
    """
    if named:
        claims = {path: f"table {table} names it" for path, table in named}
        why = (
            f"VACUUM would delete {count(len(claims), 'file')} of other tables ({_examples(sorted(claims), claims)}): "
            f"rewrite {listed(sorted({table for _, table in named}))} into files of its own, or drop it"
        )
    elif sharing:
        why = (
            f"{sharing}, and VACUUM deletes every file of the folder that the Delta log does not name: move that table "
            "elsewhere, or drop it"
        )
    elif unknown:
        why = f"VACUUM may delete files of other tables: {unknown}"
    else:
        return None
    return NotPlanned("expire", f"refused: {why}", refused=True)


def erase_refused(
    named: Sequence[tuple[str, str]], outside: Sequence[str], claims: Mapping[str, str], overlap: str
) -> str:
    """Why rows cannot be erased because of files that may be another table's, as a clause; empty if they can.

    Args:
        named: (file below the table's location, other table that names it).
        outside: files of the table elsewhere.
        claims: those of them that are another table's -> why, as a clause.
        overlap: why its folder is not its own alone, or why that is unknown, as a clause; empty if it is.
    """
    if named:
        path, table = named[0]
        many = count(len(named), "file")
        return f"table {table} names {many} below its location, e.g. {path}: rewrite that table into files of its own"
    if outside:
        many = count(len(outside), "file")
        return (
            f"it names {many} outside of its location, which may be another's ({_examples(outside, claims)}): rewrite "
            "them into its location, then expire its snapshots with expire.outside_files keep or delete"
        )
    return overlap


def _examples(paths: Sequence[str], claims: Mapping[str, str]) -> str:
    listed = [f"{path}: {claims[path]}" if path in claims else path for path in paths[:_SHOWN]]
    return ", ".join(listed) + (", .." if len(paths) > _SHOWN else "")
