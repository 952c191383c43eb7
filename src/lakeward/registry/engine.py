"""Reaching the registry: one engine a process, short transactions, and the migrations.

The password is libpq's business (`PGPASSFILE` or the URL of a private file); nothing here logs a URL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, OperationalError

from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.storable import storable

CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_MS = 30_000


def _parsed(url: str) -> URL:
    try:
        return make_url(url).set(drivername="postgresql+psycopg2")
    except (ArgumentError, ValueError):
        # It may hold a password: it is not repeated.
        raise SpecError(
            "The registry's address cannot be read",
            why="it is no URL of the form postgresql://USER@HOST:PORT/DATABASE",
            next="correct the file LAKEWARD_REGISTRY_URL_FILE names",
            code="LW-6004",
        ) from None


@lru_cache(maxsize=4)
def engine(url: str, pgpass: Path | None = None) -> Engine:
    """The process's engine for `url`; two pooled connections are enough for a reconciler or a driver."""
    arguments: dict[str, object] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "lakeward",
        "options": f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC",
    }
    if pgpass is not None and pgpass.exists():  # else libpq looks at PGPASSFILE by itself
        arguments["passfile"] = str(pgpass)
    made = create_engine(
        _parsed(url),
        pool_size=2,
        max_overflow=4,
        pool_pre_ping=True,
        connect_args=arguments,
        json_serializer=_json,
    )
    event.listen(made, "before_cursor_execute", _with_storable_texts, retval=True)
    return made


def _json(value: Any) -> str:
    return json.dumps(storable(value))


def _with_storable_texts(
    connection: Connection, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool
) -> tuple[str, Any]:
    """Here, and not where a text arises: one that is forgotten would end supervision of all streams."""
    return statement, storable(parameters)


@contextmanager
def connect(url: str, pgpass: Path | None = None) -> Iterator[Connection]:
    """One transaction: committed at the end of the block, rolled back if it raises.

    Raises:
        DependencyDown: the registry cannot be reached. Streams go on landing; people cannot see or change anything.
    """
    try:
        with engine(url, pgpass).begin() as connection:
            yield connection
    except OperationalError as error:
        where = make_url(url)
        reason = str(error.orig).strip().splitlines()[0] if error.orig else "no answer"
        raise DependencyDown(
            "The registry cannot be reached",
            why=f"PostgreSQL at {where.host}:{where.port}/{where.database}: {reason}",
            next="lakeward stack status",
            code="LW-6005",
        ) from error


def migrate(url: str, pgpass: Path | None = None) -> None:
    """Bring the registry's schema to the newest revision. Safe to run twice and from two places (advisory lock)."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with connect(url, pgpass) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
