"""Reaching a PostgreSQL database, and what its errors mean for a stream."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.postgres.name import Name
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError
from lakeward.platform.runtime import Database

if TYPE_CHECKING:
    import psycopg2
    from psycopg2.extensions import connection

CONNECT_TIMEOUT_S = 5
LOCK_TIMEOUT_MS = 20_000
"""How long a statement waits for somebody's lock of the table; the batch is tried again after it."""

_TLS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
_SETTINGS = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    # The statement that moves the position must see what others committed while it waited for the position's row.
    "default_transaction_isolation": "read committed",
}
# Connection trouble, no resources, shut down or starting, not a primary (any more), role may not log in.
_AWAY = ("08", "53", "57P", "58", "25006", "28", "3D")
_AGAIN = {"40001": "serialization failure", "40P01": "deadlock", "55P03": "lock_timeout", "57014": "statement_timeout"}


def find(connection: str, known: Mapping[str, Database]) -> Database:
    """The database of a connection.

    Raises:
        SpecError: this deployment does not know the connection, or does not understand it.
    """
    found = known.get(connection)
    if found is None:
        raise SpecError(
            f"There is no PostgreSQL connection {connection!r}",
            why=f"known connections: {', '.join(sorted(known)) or 'none'}",
            next="name one of them under connection:, or add one to Airflow (type postgres)",
            code="LW-3139",
        )
    if found.wrong:
        raise SpecError(
            f"PostgreSQL connection {connection!r} cannot be used", why=found.wrong,
            next="correct it in Airflow, or in the file (docs/how-to/land-in-postgresql.md)",
         code="LW-3140")  # fmt: skip
    return found


def connect(database: Database, pgpass: Path | None, who: str, timeout_s: int = CONNECT_TIMEOUT_S) -> connection:
    """A connection that commits each statement by itself; whoever asks for it closes it.

    Args:
        pgpass: the deployment's password file; None: libpq's own (`PGPASSFILE`).
        who: shown in `pg_stat_activity`.

    Raises:
        DependencyDown: it cannot be had.
    """
    import psycopg2

    how: dict[str, Any] = {name: value for name in _TLS if (value := getattr(database, name)) is not None}
    passwords = database.passfile or pgpass
    if passwords is not None and passwords.exists():  # else libpq looks at PGPASSFILE by itself
        how["passfile"] = str(passwords)
    try:
        link = psycopg2.connect(
            host=database.host,
            port=database.port,
            dbname=database.database,
            user=database.user,
            connect_timeout=timeout_s,
            client_encoding="UTF8",
            application_name=f"lakeward {who}"[:63],
            # A server that is gone without a word is noticed within half a minute.
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=30_000,
            **how,
        )
        link.autocommit = True
        with link.cursor() as cursor:
            for name, value in _SETTINGS.items():
                cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
            # What was committed must stay: the checkpoint goes on from it.
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit')='off'"
            )
    except psycopg2.Error as error:
        raise down(database, error) from None
    return link


def down(database: Database, error: BaseException) -> DependencyDown:
    """The error for a database that does not do its work."""
    return DependencyDown(
        "PostgreSQL does not answer",
        why=f"{database.user}@{database.host}:{database.port}/{database.database}: {words(error)}",
        next="streams wait for it inside their batches; nothing is lost",
        code="LW-3137",
    )


def words(error: BaseException) -> str:
    """What PostgreSQL said, in one line."""
    diag = getattr(error, "diag", None)
    parts = [getattr(diag, name, None) for name in ("message_primary", "message_detail", "context")]
    said = "; ".join(part.strip().splitlines()[0] for part in parts if part and part.strip())
    lines = str(error).strip().splitlines()
    return said or (lines[0] if lines else type(error).__name__)


def away(error: Exception) -> bool:
    """Whether the database went away, or cannot work, whatever it was asked."""
    import psycopg2

    code = getattr(error, "pgcode", None)
    if code is None:  # libpq's own: the connection is closed, or was lost
        return isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) or (
            type(error) is psycopg2.DatabaseError
        )
    return str(code).startswith(_AWAY)


def again(error: psycopg2.Error) -> str | None:
    """Why the same statement may succeed when it is tried again; None where it will not."""
    found = _AGAIN.get(error.pgcode or "")
    return None if found is None else f"{found}: {words(error)}"


def refused(error: psycopg2.Error, stream: str, table: Name, role: str) -> LakewardError:
    """The error for what PostgreSQL refuses, by what a person can do about it."""
    code = error.pgcode or ""
    name, said = table.text, words(error)
    if code == "42501":
        return SpecError(
            f"Role {role} may not do what stream {stream} needs in {name}", why=said,
            next=f"as the owner of the table: GRANT SELECT, INSERT, UPDATE ON {table.quoted}, {table.positions.quoted} "
            f'TO "{role}"; then: lakeward streams start {stream}',
         code="LW-3141")  # fmt: skip
    if code.startswith(("22", "23")):
        return SpecError(
            f"Table {name} does not take a row of stream {stream}", why=f"{said} (SQLSTATE {code})",
            next=f"let a rule of conf/streams/{stream}.yaml put such rows into quarantine, or change the transform or "
            "the table; then: lakeward deploy",
         code="LW-3142")  # fmt: skip
    return SpecError(
        f"Stream {stream} cannot land in table {name}", why=f"{said} (SQLSTATE {code or 'unknown'})",
        next=f"compare the table (psql: \\d {name}) with the transform; then: lakeward streams start {stream}",
     code="LW-3138")  # fmt: skip
