"""Position columns: the columns that each connector adds to the records it reads.

They are the lineage of a row: a transform with lineage `rows` keeps them, quarantine is keyed by them, and the audit
compares them with the source. Iceberg reserves `_partition`, hence the prefixes.
"""

from __future__ import annotations

INGESTED_AT = "_ingested_at"

POSITION_COLUMNS: dict[str, tuple[str, ...]] = {
    "kafka": ("_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp"),
    "kinesis": ("_kinesis_stream", "_kinesis_shard", "_kinesis_sequence"),
    "files": ("_file_path", "_file_modified"),
    "iceberg": (),
    "delta": (),
    "socket": (),
    "rate": (),
    "format": (),
}
"""Connector -> its own position columns, without `_ingested_at`, which every connector adds."""

IDENTITY_COLUMNS: dict[str, tuple[str, ...]] = {
    "kafka": ("_kafka_topic", "_kafka_partition", "_kafka_offset"),
    "kinesis": ("_kinesis_stream", "_kinesis_shard", "_kinesis_sequence"),
}
"""Connector -> the columns that identify one record of the source; only these connectors can give lineage `rows`."""

POSITION_TYPES: dict[str, str] = {
    "_kafka_topic": "STRING",
    "_kafka_partition": "INT",
    "_kafka_offset": "BIGINT",
    "_kafka_timestamp": "TIMESTAMP",
    "_kinesis_stream": "STRING",
    "_kinesis_shard": "STRING",
    "_kinesis_sequence": "STRING",
    "_file_path": "STRING",
    "_file_modified": "TIMESTAMP",
    INGESTED_AT: "TIMESTAMP",
}
"""Position column -> its Spark SQL type."""


RECORD_COLUMNS: dict[str, dict[str, str]] = {
    "kafka": {"_kafka_key": "BINARY", "_kafka_headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>"},
    "kinesis": {"_kinesis_key": "STRING", "_kinesis_arrived": "TIMESTAMP"},
}
"""Connector -> further columns of its records, with Spark SQL types, for `columns: all`."""

OWN_COLUMNS = {**POSITION_TYPES, **{name: kind for own in RECORD_COLUMNS.values() for name, kind in own.items()}}
"""Every column that Lakeward adds -> its type; a source must not declare one of these names."""


def position_columns(connector: str) -> tuple[str, ...]:
    """All columns that a connector adds, in order, `_ingested_at` last."""
    return (*POSITION_COLUMNS[connector], INGESTED_AT)
