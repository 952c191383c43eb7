"""Reads the state store of a checkpoint through Spark's state data sources, also while the query runs.

Nothing is written. The readers open a store's files by version and leave no store open, so they neither lock it nor run
its maintenance. They read the newest batch that the query has finished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import LakewardError
from lakeward.spec.checks.spark_conf import FROZEN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_PROVIDERS = {"RocksDBStateStoreProvider": "rocksdb", "HDFSBackedStateStoreProvider": "hdfs"}


@dataclass(frozen=True)
class Store:
    """One store of one operator. A join has several; each variable of transformWithState has its own.

    Attributes:
        operator: its number in the query, and in the checkpoint's folder `state/`.
        name: Spark's name of the operator, e.g. `stateStoreSave`.
        store: `default`, or the side of a join.
        variable, kind, ttl: of transformWithState; None for other operators. `ttl`: whether it expires.
        partitions: number of partitions.
        from_batch, to_batch: the batches whose state can be read.
        keys, values: column -> type; empty if the store could not be read.
        sample: rows of `to_batch`, as Spark's source returns them.
        problem: why the store could not be read; None if it was read.
    """

    operator: int
    name: str
    store: str
    variable: str | None
    kind: str | None
    ttl: bool | None
    partitions: int
    from_batch: int
    to_batch: int
    keys: Mapping[str, str]
    values: Mapping[str, str]
    sample: Sequence[Mapping[str, Any]]
    problem: str | None = None


def read(spark: SparkSession, folder: str, rows: int) -> list[Store]:
    """Every store of a checkpoint, with at most `rows` rows of each; empty if the query keeps no state.

    Raises:
        LakewardError: the state metadata of the checkpoint cannot be read.
    """
    from pyspark.errors import PySparkException

    try:
        metadata = spark.read.format("state-metadata").load(folder)
        found = metadata.select("*", "_numColsPrefixKey").orderBy("operatorId", "stateStoreName").collect()
    except PySparkException as error:
        raise LakewardError(
            "The state store cannot be read", why=_first(error), next="lakeward doctor", code="LW-2205"
        ) from error
    return [
        _read(spark, folder, store, variable, rows)
        for store in found
        for variable in (_variables(store.operatorProperties) or [{}])
    ]


def provider(conf: Mapping[str, str]) -> str | None:
    """`rocksdb` or `hdfs`, from the options that a checkpoint has frozen."""
    name = conf.get("spark.sql.streaming.stateStore.providerClass", "").rpartition(".")[2]
    return _PROVIDERS.get(name, name or None)


def frozen(conf: Mapping[str, str]) -> dict[str, str]:
    """The options in a checkpoint that replace those of the spec at a restart."""
    return {name: value for name, value in sorted(conf.items()) if name in FROZEN}


def _variables(properties: str | None) -> list[dict[str, Any]]:
    try:
        found = json.loads(properties or "{}").get("stateVariables") or []
    except (ValueError, AttributeError):
        return []
    return [variable for variable in found if not str(variable.get("stateName", "")).startswith("$")]


def _read(spark: SparkSession, folder: str, row: Row, variable: Mapping[str, Any], most: int) -> Store:
    from pyspark.errors import PySparkException

    name = str(variable["stateName"]) if variable else None
    kind = str(variable.get("stateVariableType") or "").removesuffix("State").lower() if variable else None
    keys: dict[str, str] = {}
    values: dict[str, str] = {}
    sample: list[Mapping[str, Any]] = []
    problem = None
    try:
        frame = _frame(spark, folder, row, name, kind)
        parts = {field.name: field.dataType for field in frame.schema.fields}
        keys = _columns(parts.get("key"))
        values = _columns(parts.get("value")) or {
            column: kind.simpleString() for column, kind in parts.items() if column not in ("key", "partition_id")
        }
        if most:
            shown = [column for column in frame.columns if column != "partition_id"]
            sample = [json.loads(text) for text in frame.select(*shown).limit(most).toJSON().collect()]
    except PySparkException as error:
        problem = _first(error)
    return Store(
        operator=int(row.operatorId), name=str(row.operatorName), store=str(row.stateStoreName), variable=name,
        kind=kind, ttl=bool(variable.get("ttlEnabled")) if variable else None,
        partitions=int(row.numPartitions), from_batch=int(row.minBatchId), to_batch=int(row.maxBatchId),
        keys=keys, values=values, sample=sample, problem=problem,
    )  # fmt: skip


def _frame(spark: SparkSession, folder: str, row: Row, variable: str | None, kind: str | None) -> DataFrame:
    reader = spark.read.format("statestore").option("path", folder).option("operatorId", row.operatorId)
    reader = reader.option("batchId", row.maxBatchId).option("storeName", row.stateStoreName)
    if variable is not None:
        reader = reader.option("stateVarName", variable)
        if kind in ("list", "map"):
            reader = reader.option("flattenCollectionTypes", "true")
    return reader.load()


def _columns(struct: Any) -> dict[str, str]:
    fields = getattr(struct, "fields", ())
    return {field.name: field.dataType.simpleString() for field in fields}


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
