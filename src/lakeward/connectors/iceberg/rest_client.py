"""PyIceberg's client of a REST catalog, for a server that may fall silent: every request ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManagerAdapter, LegacyOAuth2AuthManager

from lakeward.platform.errors import DependencyDown

CONNECT_S: Final = 5.0
ANSWER_S: Final = 60.0
"""How long a request waits for a connection, and for the next bytes of its answer."""


_EXPIRED: Final = 419
"""Iceberg's status for a token that has expired; not in `HTTPStatus`."""


class RestClient(RestCatalog):
    """A REST catalog that raises `DependencyDown` if it does not answer, or refuses the login or a privilege.

    A commit whose answer is lost may be done: the caller reads the table again.
    """

    def _config_headers(self, session: requests.Session) -> None:
        # Called before the session's first request. The methods of the session and PyIceberg's login call `request`.
        session.request = partial(_answered, session, session.request)  # type: ignore[method-assign]  # no default
        super()._config_headers(session)


def _answered(
    session: requests.Session,
    request: Callable[..., requests.Response],
    method: str,
    url: str,
    **options: Any,
) -> requests.Response:
    options.setdefault("timeout", (CONNECT_S, ANSWER_S))
    answer = _sent(request, method, url, **options)
    login = _is_login(options.get("data"))
    if answer.status_code in (HTTPStatus.UNAUTHORIZED, _EXPIRED) and not login and _log_in_again(session):
        answer = _sent(request, method, url, **options)  # a refused request did nothing
    status = answer.status_code
    if status in (HTTPStatus.UNAUTHORIZED, _EXPIRED) or (login and status == HTTPStatus.BAD_REQUEST):
        raise DependencyDown(
            "The REST catalog refuses the login",
            why=f"{_at(url)}: HTTP status {status}: {_message(answer)}",
            next="correct the credential or the token of the catalog; streams wait and lose nothing",
            code="LW-3430",
        )
    if status == HTTPStatus.FORBIDDEN:
        raise DependencyDown(
            "The REST catalog refuses a privilege",
            why=f"{method.upper()} {_at(url)}: HTTP status {status}: {_message(answer)}",
            next="grant the privilege to the principal of the catalog's login; streams wait and lose nothing",
            code="LW-3434",
        )
    # After a commit PyIceberg tells by the status whether it may have happened.
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if status == HTTPStatus.SERVICE_UNAVAILABLE or (failed and method.upper() != "POST"):
        raise _down(url, f"HTTP status {status}")
    return answer


def _sent(request: Callable[..., requests.Response], method: str, url: str, **options: Any) -> requests.Response:
    try:
        return request(method, url, **options)
    except (requests.ConnectionError, requests.Timeout) as error:
        raise _down(url, str(error)) from error


def _is_login(data: Any) -> bool:
    """Whether a request's body is that of a login by OAuth2."""
    return isinstance(data, dict) and "grant_type" in data


def _log_in_again(session: requests.Session) -> bool:
    """Fetch a new token if the session can; whether it did."""
    auth = session.auth
    manager = auth.auth_manager if isinstance(auth, AuthManagerAdapter) else None
    if not isinstance(manager, LegacyOAuth2AuthManager) or manager._credential is None:
        return False  # a fixed token, or nothing
    manager._refresh_token()
    return True


def _message(answer: requests.Response) -> str:
    """What the server says about a refusal: Iceberg's error document, or that of OAuth2."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    body = body if isinstance(body, dict) else {}
    error = body.get("error")
    text = error.get("message") if isinstance(error, dict) else body.get("error_description") or error
    return str(text or answer.reason or "no reason given").splitlines()[0]


def _at(url: str) -> str:
    """An address without its query."""
    return url.partition("?")[0]


def _down(url: str, why: str) -> DependencyDown:
    return DependencyDown(
        "The REST catalog does not answer",
        why=f"{_at(url)}: {why.splitlines()[0] if why else 'no answer'}",
        next="start the catalog, or correct uri: of the catalog; streams wait and lose nothing",
        code="LW-3424",
    )
