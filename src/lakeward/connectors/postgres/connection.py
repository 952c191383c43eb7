"""Connects to a PostgreSQL database, and classifies its errors for a stream."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.postgres.name import Name
from lakeward.platform.deadline import KEEPALIVE
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError
from lakeward.platform.runtime import Database

if TYPE_CHECKING:
    import psycopg2
    from psycopg2.extensions import connection

CONNECT_TIMEOUT_S = 5
LOCK_TIMEOUT_MS = 20_000
"""How long a statement waits for a lock; afterwards the batch is retried."""

_TLS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
_SETTINGS = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    # The statement that moves the position must see what others committed while it waited for the position's row.
    "default_transaction_isolation": "read committed",
}
# Connection errors, no resources, shutting down or starting, not a primary, role may not log in.
_UNAVAILABLE = ("08", "53", "57P", "58", "25006", "28", "3D")
_RETRYABLE = {
    "40001": "serialization failure",
    "40P01": "deadlock",
    "55P03": "lock_timeout",
    "57014": "statement_timeout",
}


def find(connection: str, known: Mapping[str, Database]) -> Database:
    """The database of a connection.

    Raises:
        SpecError: the connection does not exist in this deployment, or is not valid.
    """
    database = known.get(connection)
    if database is None:
        raise SpecError(
            f"PostgreSQL connection {connection!r} does not exist",
            why=f"known connections: {', '.join(sorted(known)) or 'none'}",
            next="name one of them under connection:, or add one to Airflow (type postgres)",
            code="LW-3139",
        )
    if database.wrong:
        raise SpecError(
            f"PostgreSQL connection {connection!r} is not valid",
            why=database.wrong,
            next="correct it in Airflow, or in the file (docs/how-to/land-in-postgresql.md)",
            code="LW-3140",
        )
    return database


def connect(database: Database, pgpass: Path | None, user: str, timeout_s: int = CONNECT_TIMEOUT_S) -> connection:
    """A connection in autocommit mode; the caller closes it.

    Args:
        pgpass: the deployment's password file; None: libpq's default (`PGPASSFILE`).
        user: what uses the connection, for `application_name` in `pg_stat_activity`.

    Raises:
        DependencyDown: the database does not answer, or refuses the login.
    """
    import psycopg2

    options: dict[str, Any] = {name: value for name in _TLS if (value := getattr(database, name)) is not None}
    options |= KEEPALIVE
    passwords = database.passfile or pgpass
    if passwords is not None and passwords.exists():  # otherwise libpq uses PGPASSFILE
        options["passfile"] = str(passwords)
    try:
        link = psycopg2.connect(
            host=database.host,
            port=database.port,
            dbname=database.database,
            user=database.user,
            connect_timeout=timeout_s,
            client_encoding="UTF8",
            application_name=f"lakeward {user}"[:63],
            **options,
        )
        link.autocommit = True
        with link.cursor() as cursor:
            for name, value in _SETTINGS.items():
                cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
            # A committed batch must survive a crash of the server: the checkpoint continues after it.
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit')='off'"
            )
    except psycopg2.Error as error:
        raise down(database, error) from None
    return link


def down(database: Database, error: BaseException) -> DependencyDown:
    """The error for a database that does not answer or cannot work."""
    return DependencyDown(
        "PostgreSQL does not answer",
        why=f"{database.user}@{database.host}:{database.port}/{database.database}: {message(error)}",
        next="start the database; streams wait inside their batches and lose nothing",
        code="LW-3137",
    )


def message(error: BaseException) -> str:
    """PostgreSQL's message, in one line."""
    diag = getattr(error, "diag", None)
    parts = [getattr(diag, name, None) for name in ("message_primary", "message_detail", "context")]
    text = "; ".join(part.strip().splitlines()[0] for part in parts if part and part.strip())
    lines = str(error).strip().splitlines()
    return text or (lines[0] if lines else type(error).__name__)


def unavailable(error: Exception) -> bool:
    """Whether the database is down or cannot work, independent of the statement."""
    import psycopg2

    code = getattr(error, "pgcode", None)
    if code is None:  # an error of libpq: the connection is closed or was lost
        return isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) or (
            type(error) is psycopg2.DatabaseError
        )
    return str(code).startswith(_UNAVAILABLE)


def retry_reason(error: psycopg2.Error) -> str | None:
    """Why the same statement may succeed in a retry; None if it will not."""
    reason = _RETRYABLE.get(error.pgcode or "")
    return None if reason is None else f"{reason}: {message(error)}"


def refused(error: psycopg2.Error, stream: str, table: Name, role: str) -> LakewardError:
    """The error for a statement that PostgreSQL refused: missing privilege, invalid row, or another cause."""
    code = error.pgcode or ""
    name, text = table.text, message(error)
    if code == "42501":
        return SpecError(
            f"Role {role} lacks a privilege on {name} that stream {stream} needs",
            why=text,
            next=f"as the owner of the table: GRANT SELECT, INSERT, UPDATE ON {table.quoted}, {table.positions.quoted} "
            f'TO "{role}"; then: lakeward streams start {stream}',
            code="LW-3141",
        )
    if code.startswith(("22", "23")):
        return SpecError(
            f"Table {name} refused a row of stream {stream}",
            why=f"{text} (SQLSTATE {code})",
            next=f"add a rule to conf/streams/{stream}.yaml that moves such rows to quarantine, or change the "
            "transform or the table; then: lakeward deploy",
            code="LW-3142",
        )
    return SpecError(
        f"Stream {stream} cannot land in table {name}",
        why=f"{text} (SQLSTATE {code or 'unknown'})",
        next=f"compare the table (psql: \\d {name}) with the transform; then: lakeward streams start {stream}",
        code="LW-3138",
    )
