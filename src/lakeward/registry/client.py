"""How connections to PostgreSQL are opened so that a silent server ends a wait and not the process that waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg2
from psycopg2.extensions import connection, cursor
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL

from lakeward.platform import machine
from lakeward.platform.deadline import KEEPALIVE, shut_after
from lakeward.platform.renewed import SILENCE_S

CONNECT_TIMEOUT_S: Final = 5
STATEMENT_TIMEOUT_MS: Final = 30_000
FROZEN_MS: Final = 600_000
"""A client that is frozen inside a transaction (SIGSTOP, a suspended host) keeps its row locks no longer than this."""
ANSWER_S: Final = 45.0
"""A server that answers nothing for this long is given up: one that runs ends a statement earlier."""


class Answering(connection):  # type: ignore[misc]  # psycopg2 has no types
    """A connection whose statements fail when the server is silent for `ANSWER_S`."""

    def cursor(self, *args: Any, **options: Any) -> Any:
        options.setdefault("cursor_factory", _Cursor)
        return super().cursor(*args, **options)

    def commit(self) -> None:
        with _answered(self):
            super().commit()

    def rollback(self) -> None:
        with _answered(self):
            super().rollback()


class _Cursor(cursor):  # type: ignore[misc]  # psycopg2 has no types
    def execute(self, query: Any, vars: Any = None) -> None:
        with _answered(self.connection):
            super().execute(query, vars)

    def executemany(self, query: Any, vars_list: Any) -> None:
        with _answered(self.connection):
            super().executemany(query, vars_list)


@contextmanager
def _answered(link: connection) -> Iterator[None]:
    with shut_after(link.fileno(), ANSWER_S) as wait:
        try:
            yield
        except psycopg2.Error as error:
            if wait.over:
                raise psycopg2.OperationalError(f"no answer for {ANSWER_S:.0f} s") from error
            raise


def pool(
    url: URL | str, user: str, connections: int, more: int, passfile: Path | None = None, **options: Any
) -> Engine:
    """An engine whose connections are checked before use, made again after a while, and given up when they are silent.

    Args:
        url: of the database.
        user: what uses it, for `application_name` in `pg_stat_activity`.
        connections, more: how many stay open, and how many are opened beyond that.
        passfile: libpq's password file; None: as the URL or `PGPASSFILE` says.
        options: of SQLAlchemy's engine.
    """
    arguments: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": user,
        "options": f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC "
        f"-c idle_in_transaction_session_timeout={FROZEN_MS}",
        "connection_factory": Answering,
        **KEEPALIVE,
    }
    if passfile is not None:
        arguments["passfile"] = str(passfile)
    made = create_engine(
        url,
        pool_size=connections,
        max_overflow=more,
        pool_pre_ping=True,
        pool_recycle=int(SILENCE_S),
        connect_args=arguments,
        **options,
    )
    event.listen(made, "do_connect", _with_patience)
    return made


def _with_patience(_dialect: object, _record: object, _arguments: object, parameters: dict[str, object]) -> None:
    """Wait longer for a connection while the machine is starved.

    A registry that only is slow would count as lost at each second poll, and after a loss nothing is launched for the
    lifetime of a lease: nothing would ever be launched.
    """
    parameters["connect_timeout"] = round(machine.patience(CONNECT_TIMEOUT_S))
