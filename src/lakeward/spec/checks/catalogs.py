"""Checks of `catalogs:` in `conf/lakeward.yaml`. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from lakeward.spec.model.settings import Catalog, LakeCatalog, Settings
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding

_KEYS = {"type": "type:", "uri": "uri:", "warehouse": "warehouse:", "io-impl": "store:", "auth": "connection:"}
"""Properties that a key of the block sets."""
_LOGIN = ("rest.auth.", "oauth2-", "scope", "audience", "resource", "header.authorization")
_SIGNED = ("rest.sigv4", "rest.signing")
_OURS = {
    "catalog-impl": "the class follows from type:",
    "py-catalog-impl": "the class follows from type:",
    "py-io-impl": "the class follows from the location of a table",
    "cache-enabled": "tables are always loaded afresh: a cached one would hide the commits of others",
}


def catalog_findings(settings: Settings) -> Iterator[Finding]:
    """Problems of the catalogs."""
    if settings.lake is not None and settings.catalog != Catalog():
        message = "there are catalog: (of the embedded catalog) and catalogs: {lake: ..}; keep one of the two"
        yield Finding(("catalog",), message, key=True)
    for name, catalog in settings.catalogs.items():
        at: Path_ = ("catalogs", name)
        if catalog.type == "rest":
            yield from _of_rest(at, catalog)
        for key in catalog.properties:
            if why := _refusal(key):
                yield Finding((*at, "properties", key), why, key, key=True)


def _of_rest(at: Path_, catalog: LakeCatalog) -> Iterator[Finding]:
    if catalog.uri is None:
        yield Finding(at, "a REST catalog needs uri:, the address of its server", missing=True)
        return
    address = urlsplit(catalog.uri)
    if address.scheme == "thrift":
        message = "thrift is the protocol of a Hive Metastore; REST is http or https"
        yield Finding((*at, "uri"), message, str(catalog.uri))
    if address.scheme == "http" and catalog.connection is not None and not _here(address.hostname or ""):
        message = "the login of this connection is sent unencrypted; use https"
        yield Finding((*at, "uri"), message, str(catalog.uri), warning=True)


def _refusal(key: str) -> str:
    """Why a property is refused; empty if it is not."""
    lower = key.lower()
    if lower in _KEYS:
        return f"{key} is set by the key {_KEYS[lower]}"
    if lower in _OURS:
        return f"{key} cannot be set: {_OURS[lower]}"
    if lower.startswith(_SIGNED):
        return f"not yet: {key}: requests signed for AWS (SigV4)"
    if lower.startswith(_LOGIN):
        return f"{key} belongs to the login: put it into the connection that connection: names"
    return ""


def _here(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
