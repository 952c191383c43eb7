"""What a catalog refuses: a privilege, and in words what AWS does, at Glue's API and where REST requests are signed."""

from __future__ import annotations

import re
from typing import Final

from lakeward.platform.errors import DependencyDown

_HOW: Final = "docs/how-to/use-aws-glue-or-s3-tables.md"
_CONTINUES: Final = "streams wait and lose nothing"
_EXPIRED: Final = re.compile(r"ExpiredToken|RequestExpired|token (?:included in the request )?(?:is|has) expired", re.I)
_DENIED: Final = re.compile(r"AccessDenied|not authorized to perform|Forbidden", re.I)
_SIGNATURE: Final = re.compile(
    r"UnrecognizedClient|InvalidClientTokenId|InvalidSignature|SignatureDoesNotMatch|IncompleteSignature"
    r"|InvalidAccessKeyId|MissingAuthenticationToken|Missing Authentication Token|AuthFailure"
    r"|security token included in the request is invalid|signature we calculated|Credential should be scoped",
    re.I,
)
_NO_KEYS: Final = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError")


class Forbidden(DependencyDown):
    """Raised when the server accepts the login, but refuses a privilege."""


class Away(DependencyDown):
    """Raised when a further catalog does not answer: its tables are unknown, those of the others are not."""


def refusal(what: str, where: str, region: str, code: str, message: str) -> DependencyDown | None:
    """The error for an answer of AWS that refuses the keys or a privilege; None for another answer. Pure.

    Args:
        what: the service and the operation.
        where: the address.
        region: the region that the request was signed for.
        code, message: AWS's.
    """
    text = f"{code} {message}"
    why = f"{what} at {where}: {code}: {message.splitlines()[0] if message else 'no reason given'}"
    if _EXPIRED.search(text):
        return DependencyDown(
            "The AWS session token of the catalog's connection has expired",
            why=why,
            next=f"renew aws_session_token of the connection, with its key and secret; {_CONTINUES}",
            code="LW-3507",
        )
    if _SIGNATURE.search(text):
        return DependencyDown(
            "AWS does not accept the keys of the catalog's connection",
            why=f"{why} (signed for region {region})",
            next=f"correct key, secret or region: of the catalog, and the clock of this machine; {_CONTINUES}",
            code="LW-3508",
        )
    if _DENIED.search(text):
        return Forbidden(
            "AWS refuses a privilege to the catalog's connection",
            why=why,
            next=f"grant it to the user or role of the connection ({_HOW}); {_CONTINUES}",
            code="LW-3509",
        )
    return None


def no_answer(what: str, where: str, error: Exception) -> DependencyDown:
    """The error for a request that AWS did not answer, or that could not be signed."""
    if type(error).__name__ in _NO_KEYS:
        return DependencyDown(
            "There are no AWS keys for the catalog",
            why=f"{what} at {where}: {words(error)}",
            next="name an AWS connection in connection: of the catalog, or give this machine an instance role; "
            f"{_CONTINUES}",
            code="LW-3510",
        )
    return DependencyDown(
        f"{what} does not answer",
        why=f"{where}: {words(error)}",
        next=f"check the network, and region: and uri: of the catalog; {_CONTINUES}",
        code="LW-3511",
    )


def words(error: Exception) -> str:
    """The first line of an error."""
    text = str(error)
    return text.splitlines()[0] if text else type(error).__name__
