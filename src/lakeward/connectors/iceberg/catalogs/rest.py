"""An Iceberg REST catalog: its login is in a file, so that no Spark conf shows it, and its server chooses locations.

Requests that are signed for AWS (`Lake.signed`) have no login: Iceberg signs them with the keys of the store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakeward.connectors.aws.boto import require_boto3
from lakeward.connectors.iceberg.catalogs import login
from lakeward.connectors.iceberg.catalogs.glue import connection_of
from lakeward.jars import own
from lakeward.platform.runtime import Lake

_HERE = "lakeward.connectors.iceberg.catalogs"
_VENDED = {"header.X-Iceberg-Access-Delegation": "vended-credentials"}
"""Asks the server for short-lived credentials of each table's files. PyIceberg asks by itself."""


class Rest:
    """A catalog behind Iceberg's REST protocol. Its address and warehouse are in `Lake.properties`."""

    def spark(self, lake: Lake) -> dict[str, str]:
        own_keys = lake.store is not None and lake.store.connection is not None
        properties = {} if own_keys or lake.signed else dict(_VENDED)
        if lake.login is not None:
            properties |= {"rest.auth.type": own.LOGIN_CLASS, own.LOGIN_PROPERTY: str(login.path(lake.login))}
        return properties

    def pyiceberg(self, lake: Lake, pgpass: Path | None) -> dict[str, Any]:
        properties: dict[str, Any] = {"py-catalog-impl": f"{_HERE}.rest_client.RestClient"}
        if lake.login is not None:
            found = {"file": str(login.path(lake.login)), "uri": lake.properties["uri"]}
            properties["auth"] = {"type": "custom", "impl": f"{_HERE}.login_manager.LoginFile", "custom": found}
        if lake.signed:
            require_boto3("A REST catalog with signing_name:", "glue")
            properties |= {"rest.sigv4.max-retries": "0", **connection_of(lake)}
        return properties

    def libraries(self, lake: Lake) -> list[Path]:
        return [own.LOGIN_JAR] if lake.login is not None else []

    def reads_s3(self, lake: Lake) -> bool:
        return True  # the server may keep tables there, and vend the credentials

    def state(self, lake: Lake, pgpass: Path | None) -> str | None:
        return None

    def create_schema(self, lake: Lake, pgpass: Path | None) -> None:
        """Nothing: the server has its own database."""
