"""Registry connection: one SQLAlchemy engine for each process, short transactions, and the migrations.

libpq reads the password (`PGPASSFILE`, or the URL in a private file); nothing here logs a URL.
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

from lakeward.platform import machine
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.storable import storable

CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_MS = 30_000


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
    arguments: dict[str, object] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "lakeward",
        # A server that vanished without closing the connection is detected within half a minute.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
        "options": f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC",
    }
    if pgpass is not None and pgpass.exists():  # otherwise libpq uses PGPASSFILE
        arguments["passfile"] = str(pgpass)
    result = create_engine(
        _parsed(url),
        pool_size=2,
        max_overflow=4,
        pool_pre_ping=True,
        connect_args=arguments,
        json_serializer=_json,
    )
    event.listen(result, "before_cursor_execute", _with_storable_texts, retval=True)
    event.listen(result, "do_connect", _with_patience)
    return result


def _with_patience(_dialect: object, _record: object, _arguments: object, parameters: dict[str, object]) -> None:
    """Wait longer for a connection while the machine is starved.

    A registry that only is slow would count as lost at each second poll, and after a loss nothing is launched for the
    lifetime of a lease: nothing would ever be launched.
    """
    parameters["connect_timeout"] = round(machine.patience(CONNECT_TIMEOUT_S))


def _json(value: Any) -> str:
    return json.dumps(storable(value))


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


def migrate(url: str, pgpass: Path | None = None) -> None:
    """Bring the registry's schema to the newest revision. Safe to run twice and from two places (advisory lock)."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with connect(url, pgpass) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
