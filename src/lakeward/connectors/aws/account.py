"""AWS connections: finds keys, region and endpoint (of an S3-compatible store) of an account by the connection's id.

| searched | written by |
|---|---|
| `<connections>/airflow/aws/<id>.ini` | Lakeward's tasks, from the Airflow connection of that id |
| `<connections>/aws/<id>.ini` | a person, in the format of an AWS profile file |

The first match is used. The SDKs of Java and Python read the keys from this file, whose path is in an environment
variable: so no key is in a Spark conf, on a command line or in a printable value.
"""

from __future__ import annotations

import configparser
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lakeward.platform.errors import SpecError

KEY, SECRET, TOKEN = "aws_access_key_id", "aws_secret_access_key", "aws_session_token"  # names, not keys
REGION, ENDPOINT = "region", "endpoint_url"
KNOWN = (KEY, SECRET, TOKEN, REGION, ENDPOINT)
PROFILE = "default"
_ANY_REGION = "us-east-1"
"""The region for a store other than AWS: it has no regions, but signatures need one."""


@dataclass(frozen=True)
class Account:
    """An account; the keys stay in their file.

    Attributes:
        connection: the connection's id; empty for the machine's identity.
        file: the profile file; None: the machine's identity (instance role, `~/.aws`).
        region: the region; None: the SDK's default.
        endpoint: URL of a store or service other than AWS.
    """

    connection: str = ""
    file: Path | None = None
    region: str | None = None
    endpoint: str | None = None

    @property
    def where(self) -> str:
        """Where its settings are, for messages."""
        if self.file is None:
            return "the identity of this machine (no connection is named)"
        return f"Airflow connection {self.connection}" if _by_airflow(self.file) else str(self.file)

    def environment(self) -> dict[str, str]:
        """The environment variables by which AWS's SDKs find the keys."""
        if self.file is None:
            return {}
        at = str(self.file)
        return {"AWS_SHARED_CREDENTIALS_FILE": at, "AWS_CONFIG_FILE": at, "AWS_PROFILE": PROFILE}

    def keys(self) -> Mapping[str, str]:
        """The keys by their names in the file, read each time; empty for the machine's identity.

        Raises:
            SpecError: the file no longer exists, or is not valid.
        """
        if self.file is None:
            return {}
        given = _read(self.connection, self.file)
        return {name: given[name] for name in (KEY, SECRET, TOKEN) if name in given}


def find(connection: str | None, folder: Path | None) -> Account:
    """The account of a connection.

    Args:
        connection: its id; None: the machine's identity.
        folder: `Runtime.connections`.

    Raises:
        SpecError: the connection does not exist, or is not valid.
    """
    if connection is None:
        return Account()
    for searched in places(folder):
        file = searched / f"{connection}.ini"
        if file.exists():
            given = _read(connection, file)
            endpoint = given.get(ENDPOINT)
            region = given.get(REGION) or (_ANY_REGION if endpoint else None)
            return Account(connection, file, region, endpoint)
    own = f"the file {folder / 'aws' / connection}.ini" if folder else "a file"
    raise SpecError(
        f"AWS connection {connection!r} does not exist",
        why=f"known connections: {', '.join(names(folder)) or 'none'}",
        next=f"create it in Airflow (type aws) or as {own} (docs/how-to/land-on-s3.md), or name another one",
        code="LW-3002",
    )


def names(folder: Path | None) -> list[str]:
    """The ids of all existing connections."""
    return sorted({file.stem for searched in places(folder) for file in searched.glob("[!.]*.ini")})


def places(folder: Path | None) -> list[Path]:
    """The folders with connections, in the order of the search."""
    return [] if folder is None else [folder / "airflow" / "aws", folder / "aws"]


def render(given: Mapping[str, object]) -> str:
    """The text of a profile file."""
    return "".join([f"[{PROFILE}]\n", *(f"{name} = {value}\n" for name, value in given.items())])


def _by_airflow(file: Path) -> bool:
    return file.parent.parent.name == "airflow"


def _read(connection: str, file: Path) -> Mapping[str, str]:
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        parser.read_string(file.read_text())
        given = dict(parser[PROFILE]) if parser.has_section(PROFILE) else {}
    except (OSError, ValueError, configparser.Error) as error:
        # The parser's message repeats the line, which may have a key.
        raise _invalid(connection, file, getattr(error, "strerror", None) or "it is not a profile file") from None
    if mode & 0o077:
        raise SpecError(
            f"AWS connection {connection} is readable by other users",
            why=f"{file} has mode {mode:04o}, and may have a key",
            next=f"chmod 600 {file}",
            code="LW-3004",
        )
    if why := _problem(parser.sections(), given):
        raise _invalid(connection, file, why)
    return given


def _problem(sections: list[str], given: Mapping[str, str]) -> str:
    """Why the content of a file is not valid; empty if it is valid."""
    if sections != [PROFILE]:
        return f"it must have the section [{PROFILE}] and no other; it has {', '.join(sections) or 'none'}"
    unknown = sorted(set(given) - set(KNOWN))
    if unknown:
        return f"{', '.join(unknown)} is unknown; valid: {', '.join(KNOWN)}"
    if (KEY in given) != (SECRET in given) or (TOKEN in given and KEY not in given):
        return f"{KEY} and {SECRET} must be given together"
    endpoint = given.get(ENDPOINT)
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.path.strip("/"):
            return f"{ENDPOINT} must be http(s)://HOST:PORT"
    return ""


def _invalid(connection: str, file: Path, why: str) -> SpecError:
    where = f"Airflow connection {connection}" if _by_airflow(file) else str(file)
    return SpecError(
        f"AWS connection {connection} is not valid",
        why=f"{where}: {why}",
        next="correct it (docs/how-to/land-on-s3.md)",
        code="LW-3003",
    )
