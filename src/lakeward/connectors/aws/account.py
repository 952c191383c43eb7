"""An AWS account by the id of its connection: keys, region, and the endpoint of a store that only speaks S3's protocol.

| looked for in | written by |
|---|---|
| `<connections>/airflow/aws/<id>.ini` | Lakeward's tasks, from the Airflow connection of that id |
| `<connections>/aws/<id>.ini` | a person, in AWS's own form of a profile file |

The first one counts. The SDKs of Java and Python read the keys in that very file, named by an environment variable: so
no key stands in a Spark conf, on a command line, or in a value that could be printed.
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
"""What a store that is not AWS's is asked for: it has no regions, and signatures want one."""


@dataclass(frozen=True)
class Account:
    """How one account is reached; the keys stay in their file.

    Attributes:
        connection: the connection's id; empty where the machine's own identity is used.
        file: the profile file; None: the machine's own identity (instance role, `~/.aws`).
        region: None: the SDK's own choice.
        endpoint: URL of a store or service that is not AWS's.
    """

    connection: str = ""
    file: Path | None = None
    region: str | None = None
    endpoint: str | None = None

    @property
    def where(self) -> str:
        """Where a person finds what it says."""
        if self.file is None:
            return "the identity of this machine (no connection is named)"
        return f"Airflow connection {self.connection}" if _by_airflow(self.file) else str(self.file)

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment so that AWS's SDKs find the keys."""
        if self.file is None:
            return {}
        at = str(self.file)
        return {"AWS_SHARED_CREDENTIALS_FILE": at, "AWS_CONFIG_FILE": at, "AWS_PROFILE": PROFILE}

    def keys(self) -> Mapping[str, str]:
        """The keys by their names in the file, read anew; none for the machine's own identity.

        Raises:
            SpecError: the file is gone, or wrong by now.
        """
        if self.file is None:
            return {}
        given = _read(self.connection, self.file)
        return {name: given[name] for name in (KEY, SECRET, TOKEN) if name in given}


def find(connection: str | None, folder: Path | None) -> Account:
    """The account of a connection.

    Args:
        connection: its id; None: the machine's own identity.
        folder: `Runtime.connections`.

    Raises:
        SpecError: this deployment does not know the connection, or it is not in order.
    """
    if connection is None:
        return Account()
    for place in places(folder):
        file = place / f"{connection}.ini"
        if file.exists():
            given = _read(connection, file)
            endpoint = given.get(ENDPOINT)
            region = given.get(REGION) or (_ANY_REGION if endpoint else None)
            return Account(connection, file, region, endpoint)
    own = f"the file {folder / 'aws' / connection}.ini" if folder else "a file"
    raise SpecError(
        f"There is no AWS connection {connection!r}",
        why=f"known connections: {', '.join(names(folder)) or 'none'}",
        next=f"make it in Airflow (type aws) or as {own} (docs/how-to/land-on-s3.md), or name another one",
        code="LW-3002",
    )


def names(folder: Path | None) -> list[str]:
    """The ids of all connections that are known here."""
    return sorted({each.stem for place in places(folder) for each in place.glob("[!.]*.ini")})


def places(folder: Path | None) -> list[Path]:
    """The folders that connections stand in, first the one that counts."""
    return [] if folder is None else [folder / "airflow" / "aws", folder / "aws"]


def render(given: Mapping[str, object]) -> str:
    """A profile file."""
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
        # What a parser says repeats the line, and the line may hold a key.
        raise _wrong(connection, file, getattr(error, "strerror", None) or "it is no profile file") from None
    if mode & 0o077:
        raise SpecError(
            f"AWS connection {connection} is open to other users",
            why=f"{file} has mode {mode:04o}, and may hold a key",
            next=f"chmod 600 {file}",
            code="LW-3004",
        )
    if why := _problem(parser.sections(), given):
        raise _wrong(connection, file, why)
    return given


def _problem(sections: list[str], given: Mapping[str, str]) -> str:
    """Why what a file says cannot be used; empty when it can."""
    if sections != [PROFILE]:
        return f"it must have the section [{PROFILE}] and no other; it has {', '.join(sections) or 'none'}"
    unknown = sorted(set(given) - set(KNOWN))
    if unknown:
        return f"{', '.join(unknown)} is not known here; known: {', '.join(KNOWN)}"
    if (KEY in given) != (SECRET in given) or (TOKEN in given and KEY not in given):
        return f"{KEY} and {SECRET} go together"
    endpoint = given.get(ENDPOINT)
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.path.strip("/"):
            return f"{ENDPOINT} is http(s)://HOST:PORT"
    return ""


def _wrong(connection: str, file: Path, why: str) -> SpecError:
    told = f"Airflow connection {connection}" if _by_airflow(file) else str(file)
    return SpecError(
        f"AWS connection {connection} cannot be used",
        why=f"{told}: {why}",
        next="correct it (docs/how-to/land-on-s3.md)",
        code="LW-3003",
    )
