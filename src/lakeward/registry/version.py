"""Schema version of the registry: a difference of one version works, a larger one is refused.

Migrations only add, so that code that is one version older reads and writes as before. Code that is newer than the
registry asks for `lakeward stack up`, which migrates it; drivers omit the columns that an older registry lacks. A
larger difference is not tested: command line and reconcile refuse, running drivers continue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from sqlalchemy import Connection, text

from lakeward.platform.errors import Refused, SpecError
from lakeward.registry import engine

APART = 1
"""The number of versions by which the registry may be newer than the code."""
_VERSIONS = Path(__file__).parent / "migrations" / "versions"


@lru_cache(maxsize=1)
def known() -> int:
    """The newest version this code knows."""
    return max(int(file.name[:4]) for file in _VERSIONS.glob("[0-9][0-9][0-9][0-9]_*.py"))


def of(connection: Connection) -> int | None:
    """The version of a registry; None if it was never migrated.

    Raises:
        SpecError: another application, as Airflow, keeps its own version there.
    """
    if connection.execute(text("SELECT to_regclass('alembic_version')")).scalar_one() is None:
        return None
    newest = connection.execute(text("SELECT max(version_num) FROM alembic_version")).scalar_one()
    if newest is not None and not str(newest).isdecimal():
        raise SpecError(
            "The registry's database belongs to another application",
            why=f"its table alembic_version has version {newest}, which is not Lakeward's (Airflow has such a table)",
            next="create a database for the registry alone, and name it in its place",
            code="LW-6011",
        )
    return None if newest is None else int(newest)


def columns(connection: Connection, table: str) -> frozenset[str]:
    """The columns a table of this registry has."""
    names = text(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = :table"
    )
    return frozenset(connection.execute(names, {"table": table}).scalars())


def check(connection: Connection) -> None:
    """Refuse a registry this code cannot work with.

    Raises:
        Refused: it is older, or more than one version newer. Names both versions and the next command.
    """
    version, newest = of(connection), known()
    if version is not None and newest <= version <= newest + APART:
        return
    if version is None or version < newest:
        have = "no version, because it was never set up" if version is None else f"version {version}"
        raise Refused(
            "The registry is older than this Lakeward",
            why=f"It has {have}. This Lakeward needs version {newest}. Running streams continue",
            next="lakeward stack up   migrates it without data loss",
            code="LW-6009",
        )
    raise Refused(
        "The registry is newer than this Lakeward can work with",
        why=f"It has version {version}. This Lakeward has version {newest} and works with {newest + APART} at most. "
        "Running streams continue",
        next="install the Lakeward that migrated it, then: lakeward version",
        code="LW-6008",
    )


_fine: set[tuple[str, Path | None]] = set()


@contextmanager
def connect(url: str, pgpass: Path | None = None) -> Iterator[Connection]:
    """`engine.connect` with a check of the schema version, once in a process.

    Raises:
        DependencyDown: the registry cannot be reached.
        Refused: its version does not fit.
    """
    with engine.connect(url, pgpass) as connection:
        if (url, pgpass) not in _fine:
            check(connection)
            _fine.add((url, pgpass))
        yield connection
