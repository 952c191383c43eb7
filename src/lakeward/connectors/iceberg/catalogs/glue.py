"""AWS Glue's catalog: Iceberg's GlueCatalog for Spark, and PyIceberg's; both compare Glue's version of a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakeward.connectors.aws import account, store
from lakeward.connectors.aws.boto import require_boto3
from lakeward.connectors.aws.store import CONNECTION, CONNECTIONS
from lakeward.platform.runtime import Lake

CLIENT = "lakeward.connectors.iceberg.catalogs.glue_client.GlueClient"


class Glue:
    """Glue behind AWS's API. Its region, its warehouse and, if it is not AWS's, its address are in `Lake.properties`.

    The AWS connection is that of the store: AWS's SDK in a Spark application has one file with keys.
    """

    def spark(self, lake: Lake) -> dict[str, str]:
        return {"warehouse": lake.warehouse}

    def pyiceberg(self, lake: Lake, pgpass: Path | None) -> dict[str, Any]:
        require_boto3("A Glue catalog", "glue")
        return {"warehouse": lake.warehouse, "py-catalog-impl": CLIENT, **connection_of(lake)}

    def libraries(self, lake: Lake) -> list[Path]:
        return []

    def reads_s3(self, lake: Lake) -> bool:
        return True

    def state(self, lake: Lake, pgpass: Path | None) -> str | None:
        return None  # Glue has no value that every commit changes

    def create_schema(self, lake: Lake, pgpass: Path | None) -> None:
        """Nothing: AWS has its own database."""


def connection_of(lake: Lake) -> dict[str, str]:
    """The properties by which PyIceberg's clients find the AWS connection; none for the machine's identity.

    Raises:
        SpecError: the connection does not exist, or is not valid.
    """
    found = store.account_of(lake)
    if found is None or found.file is None or lake.store is None:
        return {}
    return {CONNECTION: found.connection, CONNECTIONS: str(lake.store.connections)}


def account_of(properties: Mapping[str, Any]) -> account.Account:
    """The account that the properties of PyIceberg's catalog name.

    Raises:
        SpecError: the connection does not exist, or is not valid.
    """
    folder = properties.get(CONNECTIONS)
    return account.find(properties.get(CONNECTION), Path(folder) if folder else None)
