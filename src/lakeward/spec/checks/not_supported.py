"""Features that the grammar has and this version does not support: refused with the reason.

A change that implements one of them removes its line here, and its entry in `spec.model.unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeward.spec.checks import sqlite
from lakeward.spec.model.file_paths import elsewhere
from lakeward.spec.model.settings import Reconcile, Settings
from lakeward.spec.model.sources import FilesSource
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.model.unsupported import CATALOGS, FILES
from lakeward.spec.read.document import Path_

BRANCH = (
    "a branch as a source: Spark's source of Iceberg 1.12 reads main, whatever branch is named, so rows that {0} does "
    "not have would land too; what reads it is lakeward sql \"SELECT * FROM NAMESPACE.TABLE VERSION AS OF '{0}'\""
)
NATIVE = (
    "commit native: Spark's own sink leaves no position in the table, so nothing would be counted, quarantined, "
    "fenced, audited or recovered, and a driver that dies between the table's commit and Spark's lands a batch twice "
    "once the table's history is expired (docs/explanation/faults.md has the trial); exact is the default"
)
AVRO = (
    "Avro records: their bytes do not name their schema, so a record of another schema could become wrong values "
    "without an error; files of Avro say it, and are read (files: format: avro)"
)

Found = Iterator[tuple[Path_, str]]


def of_stream(spec: StreamSpec) -> Found:
    """Path in the long form, and the unsupported feature."""
    for name, source in spec.sources.items():
        at: Path_ = ("sources", name)
        if source.iceberg and source.iceberg.branch not in (None, "main"):
            yield (*at, "iceberg", "branch"), BRANCH.format(source.iceberg.branch)
        if source.files:
            yield from _of_files((*at, "files"), source.files)
        if source.decode and source.decode.avro:
            yield (*at, "decode", "avro"), AVRO
    if spec.trigger.available_now and any(source.kinesis for source in spec.sources.values()):
        what = "available_now for kinesis: Spark 4.1 would take one batch and call that everything; use every"
        yield ("trigger", "available_now"), what
    sink: Path_ = ("sink", spec.sink.connector)
    if spec.sink.memory:
        yield sink, "memory as a sink: no other process could read it; lakeward streams preview shows rows"
    if spec.sink.files and spec.sink.files.format in FILES:
        yield (*sink, "format"), f"files of {spec.sink.files.format}; parquet, json and csv are"
    if spec.sink.iceberg and spec.sink.iceberg.commit == "native":
        yield (*sink, "commit"), NATIVE


def _of_files(at: Path_, files: FilesSource) -> Found:
    if elsewhere(files.path):
        yield (*at, "path"), "files that are neither on the file system of the driver's machine nor on S3"


def of_settings(settings: Settings) -> Found:
    """Path in `conf/lakeward.yaml`, and the unsupported feature."""
    if settings.connections:
        yield ("connections",), "connections in this file (they are in Airflow, or in files of the home)"
    if settings.catalog.properties and not sqlite.refusal(settings.catalog.properties):
        what = "properties of the embedded catalog; a catalog of your lake is catalogs: {prod: ..}"
        yield ("catalog", "properties"), what
    for name, catalog in settings.catalogs.items():
        default = settings.lake
        keys = settings.catalog.connection if default is None else default.keys
        # The SDK of a Spark application has one file with keys.
        has_keys = catalog.keys is not None or catalog.aws
        if has_keys and catalog.keys != keys and (default is not None or keys is not None):
            key = "connection" if catalog.aws else "store"
            what = f"keys of a second object store: leave {key}: out, or name the one of {settings.lake_name}"
            yield ("catalogs", name, key), what
        if catalog.type in CATALOGS:
            what = f"type {catalog.type}: nothing was ever run there; rest, hive and glue are done"
            yield ("catalogs", name, "type"), what
    if settings.reconcile != Reconcile():
        yield ("reconcile",), "other intervals of reconcile"
