"""Services that a platform has already: the PostgreSQL of the registry, a catalog, Airflow and Kafka.

`lakeward stack use` records the registry's address in `<home>/services.json` and writes the addresses that tasks and
drivers read. `stack up` in such a home starts what the platform does not have: the Spark Connect server, the checker.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from lakeward.platform.errors import DependencyDown, LakewardError, SpecError
from lakeward.platform.runtime import Home
from lakeward.registry import engine, version
from lakeward.stack import private

FILE = "services.json"
GROUPS = ("connect", "checker")
"""The parts that `stack up` starts in such a home."""
_FIELD = re.compile(r"(?:\\.|[^:\\])*")
_INSUFFICIENT_PRIVILEGE = "42501"
_FORM = "postgresql://USER@HOST:PORT/DATABASE"


class ExternalServices(BaseModel):
    """The contents of `services.json`.

    Attributes:
        registry: the registry's address, without a password: `postgresql://USER@HOST:PORT/DATABASE`, with libpq's TLS
            parameters as its query.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    registry: str

    @classmethod
    def load(cls, home: Home) -> ExternalServices | None:
        """What is recorded in a home; None in the home of a whole stack.

        Raises:
            LakewardError: the file is damaged.
        """
        file = home.root / FILE
        try:
            return cls.model_validate_json(file.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise LakewardError(
                "The addresses of the services cannot be read",
                why=f"{file}: {str(error).splitlines()[0]}",
                next=f"lakeward stack use --registry {_FORM}   writes the file again",
                code="LW-7028",
            ) from None

    def save(self, home: Home) -> None:
        """Write the file."""
        private.write(home.root / FILE, self.model_dump_json(indent=2) + "\n")

    @property
    def url(self) -> str:
        """The registry's SQLAlchemy URL."""
        return make_url(self.registry).set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)


def registry(given: str) -> ExternalServices:
    """Read the address that a person typed.

    Raises:
        SpecError: it is not one of PostgreSQL, is not complete, or holds a password, which the process list would show.
    """
    try:
        url = make_url(given)
    except (ArgumentError, ValueError):
        raise _invalid(f"it has the form {_FORM}") from None
    if url.password is not None:
        raise SpecError(
            "The address of the registry holds a password",
            why="other users of this machine can read the arguments of a command",
            next=f"put it into a password file of PostgreSQL (~/.pgpass, mode 0600), and type {_FORM}",
            code="LW-7029",
        )
    if url.get_backend_name() not in {"postgresql", "postgres"}:
        raise _invalid(f"the registry is a PostgreSQL database, of the form {_FORM}")
    named = {"USER": url.username, "HOST": url.host, "DATABASE": url.database}
    missing = [name for name, value in named.items() if not value]
    if missing:
        raise _invalid(f"it has no {' and no '.join(missing)}; its form is {_FORM}")
    complete = url.set(drivername="postgresql", port=url.port or 5432)
    return ExternalServices(registry=complete.render_as_string(hide_password=False))


def password_line(services: ExternalServices, file: Path) -> str:
    """The line of the registry in a password file of PostgreSQL.

    Raises:
        SpecError: the file cannot be read, or has no line for the registry.
    """
    url = make_url(services.registry)
    address = (url.host or "", str(url.port), url.database or "", url.username or "")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise SpecError(
            "The password file cannot be read",
            why=f"{file}: {getattr(error, 'strerror', None) or error}",
            next="name a password file of PostgreSQL: --passwords FILE",
            code="LW-7030",
        ) from None
    for line in lines:
        fields = list(_fields(line))
        if len(fields) == 5 and all(has in ("*", wants) for has, wants in zip(fields[:4], address, strict=True)):
            return ":".join(field.replace("\\", "\\\\").replace(":", "\\:") for field in (*address, fields[4])) + "\n"
    raise SpecError(
        "The password file has no line for the registry",
        why=f"no line of {file} matches {':'.join(address)}",
        next=f"add the line {':'.join(address)}:PASSWORD",
        code="LW-7031",
    )


def known_password(services: ExternalServices, home: Home) -> str:
    """The line of the registry in the file that libpq reads, or in that of the home; empty if none has one."""
    usual = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    for file in (usual, home.pgpass):
        with suppress(SpecError):
            return password_line(services, file)
    return ""


def migrate(services: ExternalServices, pgpass: Path) -> None:
    """Bring the schema of the registry to this version; a newer one stays as it is.

    Raises:
        DependencyDown: PostgreSQL does not answer, or refuses the login.
        SpecError: the database is another application's, or the role may not create the tables.
        Refused: the registry is newer than this Lakeward can work with.
    """
    try:
        with engine.connect(services.url, pgpass) as connection:
            if (version.of(connection) or 0) >= version.known():
                version.check(connection)
                return
        engine.migrate(services.url, pgpass)
    except DependencyDown as error:
        raise DependencyDown(
            "The registry's database does not answer",
            why=error.why,
            next=f"correct the address or its line in the password file, then: {command(services)}",
            code="LW-7039",
        ) from error
    except DBAPIError as error:
        denied = getattr(error.orig, "pgcode", None) == _INSUFFICIENT_PRIVILEGE
        user = make_url(services.registry).username
        remedy = f"give the role {user} the right CREATE on schema public" if denied else "name an empty database"
        raise SpecError(
            "The tables of the registry cannot be made",
            why=f"{services.registry}: {str(error.orig).strip().splitlines()[0]}",
            next=f"{remedy}, then: {command(services)}",
            code="LW-7032",
        ) from error


def not_named(home: Home) -> SpecError:
    """No address was typed, and none is recorded."""
    return SpecError(
        "The registry is not named",
        why=f"{home.root} has no {FILE}",
        next=f"lakeward stack use --registry {_FORM}",
        code="LW-7038",
    )


def command(services: ExternalServices) -> str:
    """The command that records these services."""
    return f"lakeward stack use --registry {shlex.quote(services.registry)}"


def _fields(line: str) -> Iterator[str]:
    """The fields of a line of a password file: colons between them, a backslash before a colon or a backslash."""
    at = 0
    while not line.startswith("#"):
        match = _FIELD.match(line, at)
        text = match.group() if match else ""
        yield re.sub(r"\\(.)", r"\1", text)
        at += len(text) + 1
        if at > len(line):
            return


def _invalid(why: str) -> SpecError:
    return SpecError(
        "The address of the registry is invalid",
        why=why,
        next=f"lakeward stack use --registry {_FORM}",
        code="LW-7033",
    )
