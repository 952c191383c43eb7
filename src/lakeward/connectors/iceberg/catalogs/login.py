"""Logins of REST catalogs: a private JSON file for each connection, in Iceberg's own property names.

| searched | written by |
|---|---|
| `<connections>/airflow/iceberg/<id>.json` | Lakeward's tasks, from the Airflow connection of that id |
| `<connections>/iceberg/<id>.json` | a person |

The first match is used. Spark and PyIceberg get the file's path alone, and both read the file again when it changes.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import CatalogLogin

TOKEN: Final = "token"  # noqa: S105 - the name of a property
CREDENTIAL: Final = "credential"
SERVER: Final = "oauth2-server-uri"
SCOPE: Final = "scope"
OPTIONAL: Final = ("audience", "resource")
USER, PASSWORD = "rest.auth.basic.username", "rest.auth.basic.password"
_KINDS: Final = ((TOKEN,), (CREDENTIAL, SERVER, SCOPE, *OPTIONAL), (USER, PASSWORD))
KNOWN: Final = tuple(key for kind in _KINDS for key in kind)
_HOW = "docs/how-to/use-a-rest-catalog.md"


def path(login: CatalogLogin) -> Path:
    """The file of a login. Without one, the file that the task of Airflow would write."""
    places = [folder / f"{login.connection}.json" for folder in places_of(login.connections)]
    return next((file for file in places if file.exists()), places[0])


def names(connections: Path | None) -> list[str]:
    """The ids of all existing logins."""
    return sorted({file.stem for folder in places_of(connections) for file in folder.glob("[!.]*.json")})


def places_of(connections: Path | None) -> list[Path]:
    """The folders with logins, in the order of the search."""
    return [] if connections is None else [connections / "airflow" / "iceberg", connections / "iceberg"]


def read(file: Path) -> Mapping[str, str]:
    """The content of a login file.

    Raises:
        SpecError: it does not exist, is not valid, or other users can read it. No value of it is repeated.
    """
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        text = file.read_text()
    except FileNotFoundError:
        raise _absent(file) from None
    except (OSError, ValueError) as error:
        raise _invalid(file, getattr(error, "strerror", None) or "it is not text") from None
    if mode & 0o077:
        raise SpecError(
            f"The login of the REST catalog is readable by other users: {file.stem}",
            why=f"{file} has mode {mode:04o}, and has a secret",
            next=f"chmod 600 {file}",
            code="LW-3437",
        )
    try:
        given = json.loads(text)
    except ValueError:  # the parser's message repeats a part of the text
        given = None
    if why := _problem(given):
        raise _invalid(file, why)
    return dict(given)


def _problem(given: object) -> str:
    """Why the content of a file is not valid; empty if it is valid."""
    if not isinstance(given, dict) or not all(isinstance(value, str) and value for value in given.values()):
        return "it must be one JSON object of strings"
    unknown = sorted(set(given) - set(KNOWN))
    if unknown:
        return f"{', '.join(unknown)} is unknown; valid: {', '.join(KNOWN)}"
    kinds = [kind for kind in _KINDS if set(kind) & set(given)]
    if len(kinds) != 1 or kinds[0][0] not in given or (USER in given and PASSWORD not in given):
        return f"it must have exactly one of {TOKEN}, {CREDENTIAL}, or {USER} with {PASSWORD}"
    # A line break in a header is an error of the HTTP library, which repeats the whole header.
    if broken := sorted(key for key, value in given.items() if not value.isprintable()):
        return f"{', '.join(broken)} has a line break, or another character that cannot be printed"
    return ""


def _absent(file: Path) -> SpecError:
    own = file.parent.parent.parent if _by_airflow(file) else file.parent.parent
    known = ", ".join(names(own)) or "none"
    return SpecError(
        f"Connection {file.stem!r} of the REST catalog does not exist",
        why=f"known connections: {known}",
        next=f"create it in Airflow (type iceberg) or as {own / 'iceberg' / file.name} ({_HOW})",
        code="LW-3435",
    )


def _invalid(file: Path, why: str) -> SpecError:
    where = f"Airflow connection {file.stem}" if _by_airflow(file) else str(file)
    return SpecError(
        f"Connection {file.stem} of the REST catalog is not valid",
        why=f"{where}: {why}",
        next=f"correct it ({_HOW})",
        code="LW-3436",
    )


def _by_airflow(file: Path) -> bool:
    return file.parent.parent.name == "airflow"
