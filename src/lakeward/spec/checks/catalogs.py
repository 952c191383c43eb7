"""Checks of `catalogs:` in `conf/lakeward.yaml`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from lakeward.platform.runtime import CATALOG
from lakeward.spec.model.settings import Catalog, LakeCatalog, Settings
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding
from lakeward.spec.sql.names import name_parts

_KEYS = {"type": "type:", "uri": "uri:", "warehouse": "warehouse:", "io-impl": "store:", "auth": "connection:"}
"""Properties that a key of the block sets."""
LEVELS: Final = 2
"""Parts of a table's name in a Hive Metastore and in Glue."""
_FLAT = {"hive": ("a Hive Metastore", 128), "glue": ("AWS Glue", 252)}
"""Type of catalogs with one level of namespaces -> what it is called, and how long its names are."""
_FLAT_NAME = re.compile(r"[a-z0-9_]+")
TAKEN: Final = frozenset(
    [
        "spark_catalog",
        "system",
        "session",
        "global_temp",
        "builtin",
        "information_schema",
        "default_iceberg",
        "delta",
        "parquet",
        "orc",
        "json",
        "csv",
        "text",
        "avro",
    ]
)
"""Names that Spark, Iceberg or Delta use where SQL names a catalog; the formats in front of a path."""
_LOGIN = ("rest.auth.", "oauth2-", "scope", "audience", "resource", "header.authorization")
_SIGNED = ("rest.sigv4", "rest.signing")
_AWS_KEYS = {
    "glue.endpoint": "uri:",
    "glue.region": "region:",
    "client.region": "region:",
    "client.factory": "connection:",
}
_AWS_LOGIN = (
    "client.credentials-provider", "client.access-key", "client.secret", "client.session-token", "client.profile",
    "client.assume-role", "client.role", "glue.access-key", "glue.secret", "glue.session-token", "glue.profile",
    "rest.access-key", "rest.secret", "rest.session-token",
)  # fmt: skip
_AWS_HOST = ".amazonaws.com"
_OURS = {
    "catalog-impl": "the class follows from type:",
    "py-catalog-impl": "the class follows from type:",
    "py-io-impl": "the class follows from the location of a table",
    "cache-enabled": "tables are always loaded afresh: a cached one would hide the commits of others",
}


def catalog_findings(settings: Settings) -> Iterator[Finding]:
    """Problems of the catalogs."""
    if settings.lake is not None and settings.catalog != Catalog():
        message = "there are catalog: (of the embedded catalog) and catalogs:; keep one of the two"
        yield Finding(("catalog",), message, key=True)
    yield from _of_default(settings)
    for name, catalog in settings.catalogs.items():
        if name.lower() in TAKEN:
            message = f"{name} cannot name a catalog: Spark uses this name itself; prod, for example, can"
            yield Finding(("catalogs", name), message, name, key=True)
        at: Path_ = ("catalogs", name)
        if catalog.type == "rest":
            yield from _of_rest(at, catalog)
        if catalog.type == "hive":
            yield from _of_hive(at, catalog)
        if catalog.type == "glue":
            yield from _of_glue(at, catalog)
        yield from _of_aws(at, catalog)
        for key in catalog.properties:
            if why := _refusal(key, aws=catalog.aws):
                yield Finding((*at, "properties", key), why, key, key=True)


def _of_default(settings: Settings) -> Iterator[Finding]:
    """Whether one catalog is the default one."""
    names, default = tuple(map(str, settings.catalogs)), settings.default_catalog
    if default is None and len(names) > 1:
        message = f"of several catalogs one is the default: default_catalog: {names[0]}, for example"
        yield Finding(("default_catalog",), message, missing=True, valid=names)
    elif default is not None and not names:
        yield Finding(("default_catalog",), "there is no catalogs: that has one", default, key=True)
    elif default is not None and default not in (*names, CATALOG):
        message = f"no catalog of catalogs: has this name, and it is not {CATALOG}, the embedded one"
        yield Finding(("default_catalog",), message, default, valid=(*names, CATALOG))


def _of_rest(at: Path_, catalog: LakeCatalog) -> Iterator[Finding]:
    if catalog.uri is None:
        yield Finding(at, "a REST catalog needs uri:, the address of its server", missing=True)
        return
    address = urlsplit(catalog.uri)
    if address.scheme == "thrift":
        message = "thrift is the protocol of a Hive Metastore; REST is http or https"
        yield Finding((*at, "uri"), message, str(catalog.uri))
    if catalog.signing_name is None and (address.hostname or "").endswith(_AWS_HOST):
        message = "AWS takes signed requests only: signing_name: glue or s3tables, with region:"
        yield Finding((*at, "uri"), message, str(catalog.uri), warning=True)
    if address.scheme == "http" and catalog.connection is not None and not _here(address.hostname or ""):
        message = "the login of this connection is sent unencrypted; use https"
        yield Finding((*at, "uri"), message, str(catalog.uri), warning=True)


def _of_hive(at: Path_, catalog: LakeCatalog) -> Iterator[Finding]:
    if catalog.uri is None:
        yield Finding(at, "a Hive catalog needs uri:, the address of its metastore: thrift://HOST:9083", missing=True)
    else:
        address = urlsplit(catalog.uri)
        if address.scheme != "thrift" or not _port_of(catalog.uri) or address.path.strip("/"):
            message = "the address of a Hive Metastore is thrift://HOST:PORT, with the port (9083 by default)"
            yield Finding((*at, "uri"), message, str(catalog.uri))
    if catalog.warehouse is None:
        message = "a Hive catalog needs warehouse:, the folder or address below which new namespaces are created"
        yield Finding(at, message, missing=True)
    if catalog.connection is not None:
        message = "not yet: a login of a Hive Metastore (Kerberos); leave connection: out"
        yield Finding((*at, "connection"), message, str(catalog.connection))
    for key in catalog.properties:
        if key.lower().startswith("hive.kerberos"):
            yield Finding((*at, "properties", key), f"not yet: {key}: Kerberos", key, key=True)


def _of_glue(at: Path_, catalog: LakeCatalog) -> Iterator[Finding]:
    if catalog.warehouse is None:
        message = "a Glue catalog needs warehouse:, the address below which new tables are created: s3://BUCKET/FOLDER"
        yield Finding(at, message, missing=True)
    elif not catalog.warehouse.startswith("s3://"):
        yield Finding((*at, "warehouse"), "tables of Glue are on S3: s3://BUCKET/FOLDER", str(catalog.warehouse))
    if catalog.uri is not None and not catalog.uri.startswith("http"):
        yield Finding((*at, "uri"), "the address of Glue is http(s)://HOST; AWS's needs none", str(catalog.uri))
    if catalog.uri is not None and "/iceberg" in urlsplit(catalog.uri).path:
        message = "this is Glue's REST endpoint: type: rest with signing_name: glue; type: glue needs no uri:"
        yield Finding((*at, "uri"), message, str(catalog.uri))


def _of_aws(at: Path_, catalog: LakeCatalog) -> Iterator[Finding]:
    """What requests that are signed for AWS need, and what has no meaning without them."""
    if catalog.signing_name is not None and catalog.type != "rest":
        message = "requests are signed in a REST catalog only; type: glue signs its own by itself"
        yield Finding((*at, "signing_name"), message, str(catalog.signing_name), key=True)
    elif catalog.aws and catalog.region is None:
        yield Finding(at, "needs region:, the AWS region of the catalog: eu-central-1, for example", missing=True)
    elif catalog.type not in ("glue", "rest") and catalog.region is not None:
        message = "a region of AWS belongs to type: glue or type: rest"
        yield Finding((*at, "region"), message, str(catalog.region), key=True)
    if catalog.aws and catalog.store is not None:
        message = "the AWS connection that connection: names reads and writes the files, too: leave store: out"
        yield Finding((*at, "store"), message, str(catalog.store), key=True)


def flat_name(table: str, type_: str) -> str:
    """Why a catalog cannot have a table of this name as it is written; empty if it can.

    Args:
        type_: the catalog's type; any name fits into those that are not named in `_FLAT`.
    """
    if type_ not in _FLAT:
        return ""
    parts, (what, longest) = name_parts(table), _FLAT[type_]
    if len(parts) > LEVELS:
        return f"{what} has namespaces of one level: write namespace.table instead of {table}"
    if bad := next((part for part in parts if len(part) > longest or not _FLAT_NAME.fullmatch(part)), None):
        return f"{what} keeps names of letters a-z, digits and _, up to {longest}: {bad} is none of them"
    return ""


def _port_of(uri: str) -> int | None:
    try:
        return urlsplit(uri).port
    except ValueError:
        return None


def _refusal(key: str, *, aws: bool) -> str:
    """Why a property is refused; empty if it is not.

    Args:
        aws: whether the catalog's clients are AWS's: `LakeCatalog.aws`.
    """
    lower = key.lower()
    if lower in _KEYS:
        return f"{key} is set by the key {_KEYS[lower]}"
    if lower in _OURS:
        return f"{key} cannot be set: {_OURS[lower]}"
    if lower.startswith(_SIGNED):
        return f"{key} is set by the keys signing_name: and region:"
    if aws and lower in _AWS_KEYS:
        return f"{key} is set by the key {_AWS_KEYS[lower]}"
    if lower.startswith(_AWS_LOGIN):
        return f"{key} belongs to the AWS connection: name one that has it in connection:"
    if lower.startswith(_LOGIN):
        return f"{key} belongs to the login: put it into the connection that connection: names"
    return ""


def _here(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
