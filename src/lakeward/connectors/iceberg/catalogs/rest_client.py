"""PyIceberg's client of a REST catalog, for a server that may fall silent: every request ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import requests
from pyiceberg.catalog import BOTOCORE_SESSION
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManagerAdapter, LegacyOAuth2AuthManager
from pyiceberg.table import Table

from lakeward.connectors.aws import session as aws_session
from lakeward.connectors.iceberg.catalogs import refusals, rest_requests
from lakeward.connectors.iceberg.catalogs.glue import account_of
from lakeward.connectors.iceberg.catalogs.login_manager import LoginFile
from lakeward.connectors.iceberg.file_io import ACCESS_KEY, CheckedFileIO


class RestClient(RestCatalog):
    """A REST catalog that raises `DependencyDown` if it does not answer, or refuses the login or a privilege.

    A commit whose answer is lost may be done: the caller reads the table again.
    """

    def _config_headers(self, session: requests.Session) -> None:
        # Called before the session's first request. The methods of the session and PyIceberg's login call `request`.
        request = partial(_answered, session, session.request)
        session.request = request  # type: ignore[method-assign]  # requests has no setting for every request's time
        super()._config_headers(session)

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: Any) -> Table:
        table = super()._response_to_table(identifier_tuple, table_response)
        given = [table_response.config, *(each.config for each in table_response.storage_credentials)]
        if isinstance(table.io, CheckedFileIO) and any(ACCESS_KEY in each for each in given):
            table.io.vended_by(lambda: self.load_table(identifier_tuple).io.properties)
        return table

    def _init_sigv4(self, session: requests.Session) -> None:
        # PyIceberg's signer takes a session of botocore, by a property that nothing else needs.
        from botocore.exceptions import BotoCoreError, NoCredentialsError

        given, keys = self.properties, aws_session.session_of(account_of(self.properties))
        try:
            self.properties = {**given, BOTOCORE_SESSION: keys}
            super()._init_sigv4(session)
        finally:
            self.properties = given
        uri = self.uri
        signer: Any = session.get_adapter(uri)
        sign = signer.add_headers

        def signed(request: requests.PreparedRequest, **options: Any) -> None:
            try:
                if keys.get_credentials() is None:
                    raise NoCredentialsError
                sign(request, **options)
            except BotoCoreError as error:
                raise refusals.no_answer("The signer of the REST catalog", uri, error) from error

        signer.add_headers = signed


def _answered(
    session: requests.Session,
    request: Callable[..., requests.Response],
    method: str,
    url: str,
    **options: Any,
) -> requests.Response:
    answer = rest_requests.send(request, method, url, **options)
    login = _is_login(options.get("data"))
    if rest_requests.unauthorized(answer) and not login and _log_in_again(session):
        answer = rest_requests.send(request, method, url, **options)  # a refused request did nothing
    rest_requests.check(answer, method, url, login=login)
    return answer


def _is_login(data: Any) -> bool:
    """Whether a request's body is that of a login by OAuth2."""
    return isinstance(data, dict) and "grant_type" in data


def _log_in_again(session: requests.Session) -> bool:
    """Take another token if the session can; whether it did."""
    auth = session.auth
    manager = auth.auth_manager if isinstance(auth, AuthManagerAdapter) else None
    if isinstance(manager, LoginFile):
        return manager.renew()
    if isinstance(manager, LegacyOAuth2AuthManager) and manager._credential is not None:
        manager._refresh_token()
        return True
    return False  # a fixed token, or nothing
