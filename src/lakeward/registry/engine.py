"""Registry connection: one SQLAlchemy engine for each process, short transactions, and the migrations.

libpq reads the password (`PGPASSFILE`, or the URL in a private file); nothing here logs a URL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic_core import from_json
from sqlalchemy import URL, Connection, Engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, OperationalError

from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.storable import storable
from lakeward.registry.client import pool


def _parsed(url: str) -> URL:
    try:
        return make_url(url).set(drivername="postgresql+psycopg2")
    except (ArgumentError, ValueError):
        # The URL may contain a password: it is not repeated.
        raise SpecError(
            "The registry URL is not valid",
            why="It must have the form postgresql://USER@HOST:PORT/DATABASE",
            next="correct the file that LAKEWARD_REGISTRY_URL_FILE names",
            code="LW-6004",
        ) from None


@lru_cache(maxsize=4)
def engine(url: str, pgpass: Path | None = None) -> Engine:
    """The process's engine for `url`; two pooled connections are enough for a reconciler or a driver."""
    passfile = pgpass if pgpass is not None and pgpass.exists() else None  # otherwise libpq uses PGPASSFILE
    result = pool(_parsed(url), "lakeward", 2, 4, passfile, json_serializer=_json, json_deserializer=_document)
    event.listen(result, "before_cursor_execute", _with_storable_texts, retval=True)
    return result


def _json(value: Any) -> str:
    return json.dumps(storable(value))


def _document(text: str) -> Any:
    """A stored document. Reading all streams reads megabytes of them: `json` takes two and a half times as long."""
    try:
        return from_json(text)
    except ValueError:  # nested deeper than it reads
        return json.loads(text)


def _with_storable_texts(
    connection: Connection, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool
) -> tuple[str, Any]:
    """Applied to every statement: a text that PostgreSQL rejects would end the supervision of all streams."""
    return statement, storable(parameters)


@contextmanager
def connect(url: str, pgpass: Path | None = None) -> Iterator[Connection]:
    """One transaction: committed at the end of the block, rolled back if it raises.

    Raises:
        DependencyDown: the registry cannot be reached. Running streams continue; nothing can be shown or changed.
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


def now(connection: Connection) -> datetime:
    """The registry's clock, by which all ages are counted."""
    moment: datetime = connection.execute(select(func.now())).scalar_one()
    return moment


def migrate(url: str, pgpass: Path | None = None) -> None:
    """Bring the registry's schema to the newest revision. Safe to run twice and from two places (advisory lock)."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with connect(url, pgpass) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
