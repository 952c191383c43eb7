"""boto3: whether it is installed, and the credentials of a role that a connection names, renewed before they expire.

Java's SDK does this by itself. Python's does, too, and hands them here to clients that do not: PyArrow's SDK reads the
keys of a profile, and no `role_arn`.
"""

from __future__ import annotations

import importlib.util
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeward.platform.errors import DependencyDown, LakewardError, SpecError

if TYPE_CHECKING:
    from lakeward.connectors.aws.account import Account

HOW: Final = "docs/how-to/land-on-s3.md"
_lock = threading.Lock()
_held: dict[Path, tuple[tuple[int, int, int], Any]] = {}
"""File -> what it was, and the credentials of botocore that it names, which renew themselves."""


def require_boto3(what: str, extra: str) -> None:
    """Check that boto3 is installed.

    Args:
        what: what needs it, at the beginning of a sentence.
        extra: the extra of the package that has it.

    Raises:
        SpecError: it is not.
    """
    if importlib.util.find_spec("boto3") is None:
        raise SpecError(
            f"{what} needs boto3",
            why="boto3 is not installed in this environment",
            next=f"pip install 'lakeward[{extra}]'   (in a checkout: uv sync --extra {extra})",
            code="LW-3124",
        )


def role_keys(account: Account, file: Path, profile: str) -> tuple[str, str, str]:
    """Key, secret and session token of the account's role, now.

    botocore renews them in their last 15 minutes, and waits for that in the last 10.

    Args:
        file: of the account.
        profile: the section of the file that names the role.

    Raises:
        SpecError: the role may not be assumed, or boto3 is not installed.
        DependencyDown: STS does not answer, or the token that assumes the role has expired.
    """
    require_boto3(f"AWS connection {account.connection}, which assumes a role,", "glue")
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = _credentials(file, profile).get_frozen_credentials()
    except (BotoCoreError, ClientError, OSError) as error:
        raise _refused(account, error) from None
    return found.access_key, found.secret_key, found.token


def _credentials(file: Path, profile: str) -> Any:
    """botocore's credentials of a profile file. A changed file has new ones."""
    import botocore.session

    status = file.stat()
    now = (status.st_mtime_ns, status.st_size, status.st_ino)
    with _lock:
        known = _held.get(file)
        if known is not None and known[0] == now:
            return known[1]
        session = botocore.session.Session()
        for name in ("config_file", "credentials_file"):
            session.set_config_variable(name, str(file))
        session.set_config_variable("profile", profile)  # named, so that keys of the environment are not used
        made = session.get_credentials()
        _held[file] = now, made
        return made


def _refused(account: Account, error: Exception) -> LakewardError:
    """The error for an answer to the request for the role's credentials."""
    answer: dict[str, Any] = getattr(error, "response", {}).get("Error", {})
    code, where = str(answer.get("Code", "")), f"{account.where}, region {account.region}"
    if code.startswith("ExpiredToken") or isinstance(error, FileNotFoundError):
        by = f"the token in {account.web_token}" if account.web_token is not None else "the keys of source_profile"
        what = "does not exist" if isinstance(error, FileNotFoundError) else "has expired"
        return DependencyDown(
            f"Role {account.role} cannot be assumed: {by} {what}",
            why=f"{where}: {answer.get('Message') or error}",
            next="renew it; streams retry by themselves and lose nothing",
            code="LW-3513",
        )
    if code and getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 500) < 500:
        return SpecError(
            f"Role {account.role} of AWS connection {account.connection} may not be assumed",
            why=f"{where}: {code}: {answer.get('Message', '')}",
            next=f"correct role_arn, its trust policy, or what assumes it ({HOW})",
            code="LW-3512",
        )
    return DependencyDown(
        f"STS does not answer, which gives the credentials of role {account.role}",
        why=f"{where}: {code or type(error).__name__}: {answer.get('Message') or error}",
        next="check the network and the service; streams retry by themselves and lose nothing",
        code="LW-3514",
    )
