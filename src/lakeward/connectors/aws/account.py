"""AWS connections: finds keys, region and endpoint (of an S3-compatible store) of an account by the connection's id.

| searched | written by |
|---|---|
| `<connections>/airflow/aws/<id>.ini` | Lakeward's tasks, from the Airflow connection of that id |
| `<connections>/aws/<id>.ini` | a person, in the format of an AWS profile file |

The first match is used. The SDKs of Java and Python read the keys from this file, whose path is in an environment
variable: so no key is in a Spark conf, on a command line or in a printable value.

A role to assume is in the file as AWS writes it: `role_arn` with `source_profile`, the section with the keys that
assume it, or with `web_identity_token_file`. The SDK of Java assumes it and renews its credentials by itself. For all
other clients `keys` returns credentials of the role (`lakeward.connectors.aws.boto`).
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
ROLE, SOURCE, WEB_TOKEN = "role_arn", "source_profile", "web_identity_token_file"
EXTERNAL_ID, ROLE_SESSION = "external_id", "role_session_name"
_KEYS = (KEY, SECRET, TOKEN)
KNOWN = (*_KEYS, REGION, ENDPOINT, ROLE, SOURCE, WEB_TOKEN, EXTERNAL_ID, ROLE_SESSION)
PROFILE = "default"
_SOURCE = "source"
"""The section with the keys that assume a role, in files that are written here."""
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
        role: the role that is assumed; empty for none.
        web_token: the file with the token that assumes it; None: keys do.
    """

    connection: str = ""
    file: Path | None = None
    region: str | None = None
    endpoint: str | None = None
    role: str = ""
    web_token: Path | None = None

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
        """The keys by their names in the file, as they are now; empty for the machine's identity. Those of a role are
        valid for some minutes at least.

        Raises:
            SpecError: the file no longer exists, or is not valid, or the role may not be assumed.
            DependencyDown: STS does not answer, or the token that assumes the role has expired.
        """
        if self.file is None:
            return {}
        given = _read(self.connection, self.file)
        if ROLE in given:
            from lakeward.connectors.aws import boto

            return dict(zip(_KEYS, boto.role_keys(self, self.file, PROFILE), strict=True))
        return {name: given[name] for name in _KEYS if name in given}


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
            web_token = given.get(WEB_TOKEN)
            return Account(
                connection, file, region, endpoint, given.get(ROLE, ""), Path(web_token) if web_token else None
            )
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
    """The text of a profile file. Where a role is given, the keys that assume it are in a section of their own."""
    sections: dict[str, dict[str, object]] = {PROFILE: dict(given)}
    if ROLE in given and SOURCE not in given and (moved := [name for name in _KEYS if name in given]):
        sections[_SOURCE] = {name: sections[PROFILE].pop(name) for name in moved}
        sections[PROFILE][SOURCE] = _SOURCE
    return "".join(
        line
        for name, content in sections.items()
        for line in (f"[{name}]\n", *(f"{key} = {value}\n" for key, value in content.items()))
    )


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
    if why := _problem({name: dict(parser[name]) for name in parser.sections()}):
        raise _invalid(connection, file, why)
    return given


def _problem(sections: Mapping[str, Mapping[str, str]]) -> str:
    """Why the content of a file is not valid; empty if it is valid."""
    given = sections.get(PROFILE, {})
    source = given.get(SOURCE, PROFILE) if ROLE in given else PROFILE
    if set(sections) != {PROFILE, source}:
        also = f", and [{source}], which {SOURCE} names," if source != PROFILE else ""
        return f"it must have the section [{PROFILE}]{also} and no other; it has {', '.join(sections) or 'none'}"
    unknown = sorted(set(given) - set(KNOWN))
    if unknown:
        return f"{', '.join(unknown)} is unknown; valid: {', '.join(KNOWN)}"
    if why := _wrong_role(given, sections[source]) or _wrong_keys(given):
        return why
    endpoint = given.get(ENDPOINT)
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.path.strip("/"):
            return f"{ENDPOINT} must be http(s)://HOST:PORT"
    return ""


def _wrong_keys(given: Mapping[str, str]) -> str:
    if (KEY in given) != (SECRET in given) or (TOKEN in given and KEY not in given):
        return f"{KEY} and {SECRET} must be given together"
    return ""


def _wrong_role(given: Mapping[str, str], source: Mapping[str, str]) -> str:
    """Why the role of a profile cannot be assumed by every SDK that reads it.

    Args:
        source: the section that `source_profile` names.
    """
    if ROLE not in given:
        alone = [name for name in (SOURCE, WEB_TOKEN, EXTERNAL_ID, ROLE_SESSION) if name in given]
        return f"{', '.join(alone)} needs {ROLE}" if alone else ""
    if own := [name for name in _KEYS if name in given]:
        return f"{', '.join(own)} must be in a section of their own, which {SOURCE} names: they assume {ROLE}"
    if (SOURCE in given) == (WEB_TOKEN in given):
        return f"{ROLE} needs either {SOURCE}, a section with the keys that assume it, or {WEB_TOKEN}"
    if REGION not in given:
        return f"{ROLE} needs {REGION}: STS of that region gives its credentials"
    if WEB_TOKEN in given:
        if EXTERNAL_ID in given:
            return f"{EXTERNAL_ID} is for roles that keys assume, not for {WEB_TOKEN}"
        return "" if given[WEB_TOKEN].startswith("/") else f"{WEB_TOKEN} must be an absolute path"
    if given[SOURCE] == PROFILE:
        return f"{SOURCE} must be another section than [{PROFILE}], with the keys that assume {ROLE}"
    if unknown := sorted(set(source) - set(_KEYS)):
        return f"{', '.join(unknown)} is unknown in [{given[SOURCE]}]; valid: {', '.join(_KEYS)}"
    return _wrong_keys(source) if KEY in source else f"[{given[SOURCE]}] has no {KEY}"


def _invalid(connection: str, file: Path, why: str) -> SpecError:
    where = f"Airflow connection {connection}" if _by_airflow(file) else str(file)
    return SpecError(
        f"AWS connection {connection} is not valid",
        why=f"{where}: {why}",
        next="correct it (docs/how-to/land-on-s3.md)",
        code="LW-3003",
    )
