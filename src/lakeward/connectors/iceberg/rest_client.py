"""PyIceberg's client of a REST catalog, for a server that may fall silent: every request ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import requests
from pyiceberg.catalog.rest import RestCatalog

from lakeward.platform.errors import DependencyDown

CONNECT_S: Final = 5.0
ANSWER_S: Final = 60.0
"""How long a request waits for a connection, and for the next bytes of its answer."""


class RestClient(RestCatalog):
    """A REST catalog that raises `DependencyDown` if it does not answer.

    A commit whose answer is lost may be done: the caller reads the table again.
    """

    def _config_headers(self, session: requests.Session) -> None:
        # Called before the session's first request. The methods of the session and PyIceberg's login call `request`.
        session.request = partial(_answered, session.request)  # type: ignore[method-assign]  # requests has no default
        super()._config_headers(session)


def _answered(request: Callable[..., requests.Response], method: str, url: str, **options: Any) -> requests.Response:
    options.setdefault("timeout", (CONNECT_S, ANSWER_S))
    try:
        answer = request(method, url, **options)
    except (requests.ConnectionError, requests.Timeout) as error:
        raise _down(url, str(error)) from error
    # After a commit PyIceberg tells by the status whether it may have happened.
    failed = answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE or (failed and method.upper() != "POST"):
        raise _down(url, f"HTTP status {answer.status_code}")
    return answer


def _down(url: str, why: str) -> DependencyDown:
    return DependencyDown(
        "The REST catalog does not answer",
        why=f"{url.partition('?')[0]}: {why.splitlines()[0] if why else 'no answer'}",
        next="start the catalog, or correct uri: of the catalog; streams wait and lose nothing",
        code="LW-3424",
    )
