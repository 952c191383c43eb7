"""PyIceberg's client of AWS Glue: every request ends, and what AWS refuses is an error with words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from pyiceberg.catalog.glue import (
    GLUE_CATALOG_ENDPOINT,
    GLUE_ID,
    GlueCatalog,
    _register_glue_catalog_id_with_glue_client,
)
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.io import AWS_REGION

from lakeward.connectors.aws import session
from lakeward.connectors.iceberg.catalogs import refusals
from lakeward.connectors.iceberg.catalogs.glue import account_of
from lakeward.connectors.iceberg.document_updates import not_written

if TYPE_CHECKING:
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

CONNECT_S: Final = 5.0
ANSWER_S: Final = 60.0
"""How long a request waits for a connection, and for its answer."""
TRIES: Final = 3
_COMMIT: Final = "UpdateTable"
_CONFLICT: Final = "ConcurrentModificationException"


class GlueClient(GlueCatalog):
    """A Glue catalog that raises `DependencyDown` if Glue does not answer, or refuses the keys or a privilege.

    A commit whose answer is lost may be done: `CommitStateUnknownException`, after which the table is read again.
    """

    def __init__(self, name: str, **properties: Any) -> None:
        region = properties[AWS_REGION]
        made = boto3.session.Session(botocore_session=session.session_of(account_of(properties)), region_name=region)
        config = Config(
            connect_timeout=CONNECT_S, read_timeout=ANSWER_S, retries={"total_max_attempts": TRIES, "mode": "standard"}
        )
        client = made.client("glue", endpoint_url=properties.get(GLUE_CATALOG_ENDPOINT), config=config)
        where = client.meta.endpoint_url

        def answered(model: Any, parsed: dict[str, Any], **_: Any) -> None:
            _check(where, region, model.name, parsed)

        def failed(exception: Exception, event_name: str, **_: Any) -> None:
            # Of several attempts an earlier one may have arrived.
            if event_name.endswith(f".{_COMMIT}"):
                raise CommitStateUnknownException(f"{where}: {refusals.words(exception)}") from exception
            if isinstance(exception, BotoCoreError):
                raise refusals.no_answer("Glue", where, exception) from exception

        client.meta.events.register("after-call.glue", answered)
        client.meta.events.register("after-call-error.glue", failed)
        super().__init__(name, client=client, **properties)
        if catalog := properties.get(GLUE_ID):  # PyIceberg does it for a client of its own only
            _register_glue_catalog_id_with_glue_client(client, catalog)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        try:
            return super().commit_table(table, requirements, updates)
        except NotImplementedError as error:
            raise not_written(table) from error


def _check(where: str, region: str, operation: str, parsed: dict[str, Any]) -> None:
    """Check an answer of Glue; errors that PyIceberg knows pass."""
    error = parsed.get("Error")
    if not error:
        return
    tries = parsed.get("ResponseMetadata", {}).get("RetryAttempts", 0)
    if operation == _COMMIT and tries and error.get("Code") == _CONFLICT:
        # The attempt before, whose answer was lost, may be the commit that this one met.
        raise CommitStateUnknownException(f"{where}: {_CONFLICT} after {tries} retries")
    code, message = str(error.get("Code")), str(error.get("Message"))
    if refused := refusals.refusal(f"Glue {operation}", where, region, code, message):
        raise refused
