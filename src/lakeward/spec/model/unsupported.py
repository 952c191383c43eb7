"""Keys and values that the grammar has and this version refuses, so that nothing offers them.

The reference, the schemas of editors and the messages of problems leave them out; `spec.checks.not_supported` refuses
them with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

FILES = {"orc", "avro", "text"}
CATALOGS = {"jdbc"}

UNSUPPORTED: Mapping[tuple[str, str], Set[str]] = {
    ("IcebergSource", "branch"): {"*"},
    ("Decode", "avro"): {"*"},
    ("Sink", "memory"): {"*"},
    ("FilesSink", "format"): FILES,
    ("IcebergSink", "commit"): {"*"},
    ("Settings", "connections"): {"*"},
    ("Settings", "reconcile"): {"*"},
    ("Catalog", "properties"): {"*"},
    ("LakeCatalog", "type"): CATALOGS,
}
"""(model, key) -> the values that are refused, `*` for the key itself."""


def supported_keys(model: str, keys: Iterable[str]) -> tuple[str, ...]:
    """The keys of a model without those that are refused, whatever their value is."""
    return tuple(key for key in keys if "*" not in UNSUPPORTED.get((model, key), ()))


def supported_values(model: str, key: str, values: Iterable[str]) -> tuple[str, ...]:
    """The values of a key without those that are refused; none if the key itself is."""
    refused = UNSUPPORTED.get((model, key), ())
    return () if "*" in refused else tuple(value for value in values if value not in refused)
