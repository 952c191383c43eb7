"""PyIceberg's login by a login file. The twin in the JVM is `io.lakeward.LoginFile`."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import requests
from pyiceberg.catalog.rest.auth import AuthManager

from lakeward.connectors.iceberg.catalogs import login, rest_requests
from lakeward.platform.errors import DependencyDown

LONGEST_S: Final = 300.0
"""A token is fetched again after this time at the latest: a server may forget its tokens before they expire."""
MARGIN_S: Final = 60.0
"""How long before its end a token is renewed, but never more than a tenth of its life."""
PAUSE_S: Final = 5.0
"""The pause after a renewal that failed while the token is still valid."""
_DEFAULT_SCOPE = "catalog"  # Iceberg's


class LoginFile(AuthManager):
    """The login of a file, which is read again when it changes.

    Args:
        file: the login file.
        uri: the address of the catalog, for Iceberg's default address of logins.
    """

    def __init__(self, file: str, uri: str) -> None:
        self._file, self._uri = Path(file), uri
        self._lock = threading.Lock()
        self._read_as: tuple[int, int, int] | None = None
        self._login: Mapping[str, str] = {}
        self._token = ""
        self._renew_at = self._ends_at = 0.0

    def auth_header(self) -> str:
        """The value of the header `Authorization`.

        Raises:
            SpecError: the file does not exist, or is not valid.
            DependencyDown: the server of logins does not answer, or refuses the login.
        """
        with self._lock:
            self._read()
            given = self._login
            if login.USER in given:
                pair = f"{given[login.USER]}:{given[login.PASSWORD]}".encode()
                return f"Basic {base64.b64encode(pair).decode()}"
            if login.TOKEN in given:
                return f"Bearer {given[login.TOKEN]}"
            if time.monotonic() >= self._renew_at:
                self._renew()
            return f"Bearer {self._token}"

    def renew(self) -> bool:
        """Take another token for the next request, because the server refused this one; whether there can be another.

        The file of a fixed token may have changed since the request was made.
        """
        with self._lock:
            before = self._login
            self._forget()
            self._read()
            return login.CREDENTIAL in self._login or self._login != before

    def _read(self) -> None:
        """Read the file if it changed."""
        try:
            status = self._file.stat()
            now = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            now = None
        if now is None or now != self._read_as:
            self._login = login.read(self._file)  # says what is wrong with a file that is not there
            self._read_as = now
            self._forget()

    def _forget(self) -> None:
        self._renew_at = self._ends_at = 0.0

    def _renew(self) -> None:
        """Take another token, or go on with the one that is still valid."""
        try:
            self._token, life_s = self._fetch()
        except DependencyDown:
            if time.monotonic() >= self._ends_at:
                raise
            self._renew_at = time.monotonic() + PAUSE_S
            return
        self._ends_at = time.monotonic() + life_s
        self._renew_at = time.monotonic() + min(LONGEST_S, life_s - min(MARGIN_S, life_s / 10))

    def _fetch(self) -> tuple[str, float]:
        """Log in by OAuth2 client credentials, as Iceberg does in Java; the token and its life in seconds."""
        given = self._login
        user, colon, secret = given[login.CREDENTIAL].partition(":")
        form = {"grant_type": "client_credentials", login.SCOPE: given.get(login.SCOPE, _DEFAULT_SCOPE)}
        form |= {"client_id": user, "client_secret": secret} if colon else {"client_secret": user}
        form |= {name: given[name] for name in login.OPTIONAL if name in given}
        url = given.get(login.SERVER) or f"{self._uri.rstrip('/')}/v1/oauth/tokens"
        answer = rest_requests.send(requests.request, "POST", url, data=form)
        rest_requests.check(answer, "POST", url, login=True)
        return _token_of(answer, url)


def _token_of(answer: requests.Response, url: str) -> tuple[str, float]:
    """The token and its life in seconds."""
    try:
        body = answer.json()
        return str(body["access_token"]), float(body.get("expires_in") or LONGEST_S)
    except (ValueError, KeyError, TypeError):
        raise DependencyDown(
            "The REST catalog's login gives no token",
            why=f"{url} answered HTTP status {answer.status_code}, without an access_token",
            next=f"correct {login.SERVER} of the catalog's connection; streams wait and lose nothing",
            code="LW-3438",
        ) from None
