"""Requests to a REST catalog: every one ends, and what the server refuses is an error with words."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import requests

from lakeward.connectors.iceberg.catalogs import refusals
from lakeward.connectors.iceberg.catalogs.refusals import Forbidden
from lakeward.platform.errors import DependencyDown

CONNECT_S: Final = 5.0
ANSWER_S: Final = 60.0
"""How long a request waits for a connection, and for the next bytes of its answer."""
_REFUSED: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_SCOPE: Final = re.compile(r"AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/([^/]+)/([^/]+)/aws4_request")
"""Of a signature: the region and the service that it is for."""
EXPIRED: Final = 419
"""Iceberg's status for a token that has expired; not in `HTTPStatus`."""


def send(request: Callable[..., requests.Response], method: str, url: str, **options: Any) -> requests.Response:
    """Send a request.

    Raises:
        DependencyDown: no connection, or no answer in time.
    """
    options.setdefault("timeout", (CONNECT_S, ANSWER_S))
    try:
        return request(method, url, **options)
    except (requests.ConnectionError, requests.Timeout) as error:
        raise down(url, str(error)) from error


def unauthorized(answer: requests.Response) -> bool:
    """Whether the server does not accept the token."""
    return answer.status_code in (HTTPStatus.UNAUTHORIZED, EXPIRED)


def check(answer: requests.Response, method: str, url: str, *, login: bool = False) -> None:
    """Check the status of an answer.

    Args:
        login: whether the request was a login, whose failure is a 400 in OAuth2.

    Raises:
        DependencyDown: the server refuses the login or a privilege, or is down.
    """
    status = answer.status_code
    if status in _REFUSED and (refused := _signed_refusal(answer, url)):
        raise refused
    if unauthorized(answer) or (login and status == HTTPStatus.BAD_REQUEST):
        raise DependencyDown(
            "The REST catalog refuses the login",
            why=f"{_at(url)}: HTTP status {status}: {_message(answer)}",
            next="correct the credential or the token of the catalog; streams wait and lose nothing",
            code="LW-3430",
        )
    if status == HTTPStatus.FORBIDDEN:
        raise Forbidden(
            "The REST catalog refuses a privilege",
            why=f"{method.upper()} {_at(url)}: HTTP status {status}: {_message(answer)}",
            next="grant the privilege to the principal of the catalog's login; streams wait and lose nothing",
            code="LW-3434",
        )
    # After a commit PyIceberg tells by the status whether it may have happened.
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if status == HTTPStatus.SERVICE_UNAVAILABLE or (failed and (login or method.upper() != "POST")):
        raise down(url, f"HTTP status {status}")


def _signed_refusal(answer: requests.Response, url: str) -> DependencyDown | None:
    """The error for a request that was signed for AWS and refused; None for another one."""
    signed = _SCOPE.search(str(answer.request.headers.get("Authorization", "")))
    if signed is None:
        return None
    # AWS's gateways say it in a header, or in the body: without Iceberg's error document.
    code = answer.headers.get("x-amzn-ErrorType", "").partition(":")[0] or f"HTTP status {answer.status_code}"
    return refusals.refusal(f"The REST catalog for {signed[2]}", _at(url), signed[1], code, _message(answer))


def down(url: str, why: str) -> DependencyDown:
    """The error for a server that does not answer."""
    return DependencyDown(
        "The REST catalog does not answer",
        why=f"{_at(url)}: {why.splitlines()[0] if why else 'no answer'}",
        next="start the catalog, or correct uri: of the catalog; streams wait and lose nothing",
        code="LW-3424",
    )


def _message(answer: requests.Response) -> str:
    """What the server says about a refusal: Iceberg's error document, or that of OAuth2."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    body = body if isinstance(body, dict) else {}
    error = body.get("error")
    text = error.get("message") if isinstance(error, dict) else body.get("error_description") or error
    text = text or body.get("message") or body.get("Message")  # AWS's
    return str(text or answer.reason or "no reason given").splitlines()[0]


def _at(url: str) -> str:
    """An address without its query."""
    return url.partition("?")[0]
