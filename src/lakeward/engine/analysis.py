"""Deep validation of a spec by Spark's analyzer: types, functions, columns. No query runs.

A local Spark session analyses the transform over empty tables of the declared columns. It has the catalogs of the lake
if a runtime is given; else it needs neither jars nor network. It reads only the headers of reference files and the
columns of reference tables, and writes nothing.
"""

from __future__ import annotations

import csv
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lakeward import jars
from lakeward.connectors import schema_evolution
from lakeward.connectors.columns import up_casts
from lakeward.connectors.delta import location as place
from lakeward.connectors.iceberg import catalog
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.connectors.python import code, functions, packages
from lakeward.connectors.python.code import UserCodeFailed
from lakeward.connectors.reference.choose import of_database, reader_of
from lakeward.connectors.schema_evolution import Comparison
from lakeward.jars import own as own_jars
from lakeward.jars.java import ROOM_FOR_CLASSES
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError
from lakeward.platform.runtime import Runtime
from lakeward.spec.checks.columns import columns_path
from lakeward.spec.model.driver_conf import QUICK
from lakeward.spec.model.position_columns import OWN_COLUMNS, RECORD_COLUMNS
from lakeward.spec.model.sources import Reference, Source
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.files import dotted
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GROWS = ("schema", "evolution")
_PLACE = re.compile(r";? ?line (\d+),? pos (\d+)")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.shuffle.partitions": "1",
    _JAVA_OPTIONS: f"-XX:+UseSerialGC {ROOM_FOR_CLASSES}",
}
_BRIEF = {
    _JAVA_OPTIONS: f"-XX:+UseSerialGC {ROOM_FOR_CLASSES} {QUICK}",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Of a session that analyses or reads a sample: it lives for seconds, and to compile a query, or code of Java a second
time, costs several times what running it does."""


@dataclass(frozen=True)
class Finding:
    """A problem that Spark's analysis found.

    Attributes:
        path: where in the spec.
        place: line and column in the SQL text, if Spark names them.
        value, valid: the value in the spec, and the valid ones.
        warning: not an error, e.g. something could not be analysed.
        file: the file of the project's Python; None for the stream's file.
    """

    path: tuple[str | int, ...]
    message: str
    place: tuple[int, int] | None = None
    value: str | None = None
    valid: tuple[str, ...] = ()
    warning: bool = False
    file: str | None = None


def problems(spec: StreamSpec, has: Mapping[str, Any] | None = None, runtime: Runtime | None = None) -> list[str]:
    """All problems of one spec, as sentences. Starts and stops a session.

    Args:
        has: the columns of the sink's table, as Spark's JSON of a schema; None without a table.
        runtime: addresses of the tables that are references.

    Raises:
        LakewardError: Spark did not start.
    """
    with session([spec], runtime) as spark:
        found = list(findings(spark, spec, has, runtime))
    return [f"{dotted(finding.path)}: {finding.message}" for finding in found if not finding.warning]


@contextmanager
def session(
    specs: Iterable[StreamSpec] = (), runtime: Runtime | None = None, *, lake: bool = False
) -> Iterator[SparkSession]:
    """A session for `findings` of these specs; with the lake of `runtime` if one of them reads a table of it.

    Args:
        lake: with the lake in any case, for an operation that reads and writes its tables.
    """
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    jars.find_java()  # its error says what is missing; Spark would print that of a shell script
    os.environ["PYSPARK_PYTHON"] = sys.executable  # for the workers that a preview of a Python transform starts
    # Spark logs every analysis error with its stack trace; here they are returned as findings.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    builder = SparkSession.builder.master("local[1]").appName("lakeward-analysis")
    settings = _SETTINGS if lake else _SETTINGS | _BRIEF
    lake = lake or any(
        any(map(_of_the_lake, spec.reference.values())) or any(map(_of_the_lake, spec.sources.values()))
        for spec in specs
    )
    archive = jars.archive.conf(None if runtime is None else runtime.jars)
    java = f"{settings[_JAVA_OPTIONS]} {archive.get(_JAVA_OPTIONS, '')}".strip()
    with_lake = _lake(runtime) if runtime is not None and lake else {}
    decoder = {"spark.jars": str(own_jars.READER_JAR)}  # of JSON, which a preview decodes; the lake brings it along too
    for key, value in {**settings, **archive, **decoder, **with_lake, _JAVA_OPTIONS: java}.items():
        builder = builder.config(key, value)
    with tempfile.TemporaryFile() as output:
        try:
            with _stderr_to(output):
                spark = builder.getOrCreate()
        except Exception as error:  # noqa: BLE001  # pyspark raises bare exceptions if its JVM does not start
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()[-5:]
            raise LakewardError("Spark did not start", why="\n        ".join([str(error), *lines]),
                                next="lakeward doctor", code="LW-2201") from None  # fmt: skip
        try:
            yield spark
        finally:
            spark.stop()


def table_changes(spark: SparkSession, spec: StreamSpec, has: Mapping[str, Any], runtime: Runtime) -> list[str]:
    """The changes that a start of this spec makes to its table, one sentence each; or why the start will be refused."""
    found = list(findings(spark, spec, has, runtime))
    refused = [f"refused: {finding.message}" for finding in found if not finding.warning]
    return refused or [finding.message for finding in found if finding.path == _GROWS]


def _lake(runtime: Runtime) -> dict[str, str]:
    """Conf of a session that can read the tables of the lake."""
    if runtime.pgpass is not None:
        os.environ.setdefault("PGPASSFILE", str(runtime.pgpass))
    os.environ.update(catalog.environment(runtime.lake, runtime.jars))
    classpath = os.pathsep.join(str(jar) for jar in jars.spark_classpath(runtime.jars))
    return {"spark.driver.extraClassPath": classpath, **catalog.spark_conf(runtime.lake)}


def _of_the_lake(reference: Reference | Source) -> bool:
    return reference.iceberg is not None or reference.delta is not None


def findings(
    spark: SparkSession, spec: StreamSpec, has: Mapping[str, Any] | None = None, runtime: Runtime | None = None
) -> Iterator[Finding]:
    """The problems of the transform, the rules and the sink of one spec.

    Args:
        has: as for `problems`.
        runtime: the one that the session was started with.
    """
    from pyspark.errors import PySparkException

    own = spark.newSession()  # streams do not share views
    for key in spec.spark:
        if not own.conf.isModifiable(key):
            yield Finding(("spark", key), f"Spark has no setting {key}: it has no effect", value=key, warning=True)
    if spec.packages and (why := _without_packages(own, spec, runtime)):
        yield Finding(("requirements",), f"the function was not called: {why}", warning=True)
        return
    frames: dict[str, DataFrame] = {}
    for name, source in spec.sources.items():
        if source.from_table is not None:
            frame = _table(own, source, runtime)
            if frame is None:
                why = f"the SQL was not analysed: {_no_columns(source, runtime)}"
                yield Finding(("sources", name, source.connector), why, warning=True)
                return
            frames[name] = frame
            frames[name].createOrReplaceTempView(name)
            continue
        if source.format is not None and source.declared_columns is None:
            why = f"the SQL was not analysed: the columns of {source.format.name} are unknown; columns: declares them"
            yield Finding(("sources", name, "format"), why, warning=True)
            return
        try:
            frames[name] = own.createDataFrame([], _columns_of(source))
            frames[name].createOrReplaceTempView(name)
        except PySparkException as error:
            path = ("sources", name, *columns_path(source))
            yield Finding(path, f"Spark cannot read these columns: {_message(error)}", value=_declared_columns(source))
            return
    for name, reference in spec.reference.items():
        at = ("reference", name, reference.kind)
        if runtime is None and (_of_the_lake(reference) or reference.jdbc):
            yield Finding(at, "the SQL was not analysed: without a running stack the columns of this table are unknown",
                          warning=True)  # fmt: skip
            return
        try:
            frames[name] = _reference(own, str(name), reference, runtime)
            frames[name].createOrReplaceTempView(name)
        except SpecError as error:
            yield Finding(at, f"{error.what}; {error.why}")
            return
        except DependencyDown as error:
            yield Finding(at, f"the SQL was not analysed: {error.what}: {error.why}", warning=True)
            return
        except (PySparkException, OSError) as error:
            yield Finding(at, f"Spark cannot read it: {_message(error)}")
            return
    try:
        if spec.transform.python is not None:
            rows = code.call(spec.transform, frames)
        else:
            functions.register(own, spec.transform)
            rows = own.sql(str(spec.transform.sql))
    except UserCodeFailed as error:
        yield _of_python(error, spec)
        return
    except PySparkException as error:
        yield Finding(("transform", "sql"), _message(error), _place(error))
        return
    yield from _expressions(spec, rows)
    yield from _columns(spec, rows)
    if has is not None:
        compared, additive = _compared(own, spec, rows, has), spec.schema_.evolution == "additive"
        if parts := list(schema_evolution.differences(compared, compared.lacking, additive=additive)):
            yield Finding(_transform(spec), f"it gives other columns than the table has; {'; '.join(parts)}")
        else:
            yield from (Finding(_GROWS, change, warning=True) for change in schema_evolution.grows(compared))


def _without_packages(spark: SparkSession, spec: StreamSpec, runtime: Runtime | None) -> str | None:
    """Why the packages of a stream cannot be imported here; None if they can."""
    if runtime is None:
        return "without a running stack its packages cannot be installed"
    try:
        packages.activate(spark, str(spec.id), spec.packages, runtime.environments)
    except (SpecError, DependencyDown) as error:
        return f"{error.what}: {error.why}"
    return None


def _transform(spec: StreamSpec) -> tuple[str, str]:
    return ("transform", "sql" if spec.transform.python is None else "python")


def _of_python(error: UserCodeFailed, spec: StreamSpec) -> Finding:
    first, *frames = [error.what, *error.why.splitlines()]
    lines = ": ".join([first, *frames[:1]])
    file, line = error.place or (None, 1)
    return Finding(("transform", "udfs" if spec.transform.udfs else "python"), lines, (line, 1), file=file)


def _table(spark: SparkSession, source: Source, runtime: Runtime | None) -> DataFrame | None:
    """An empty DataFrame with the columns of a table that is read as a stream; None if they are unknown."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    if runtime is None:
        return None
    try:
        if source.delta is not None:
            rows = spark.read.format("delta").load(str(place.folder_of(runtime.lake, str(source.delta.table)))).limit(0)
        else:
            rows = spark.table(in_lake(spark, str(source.from_table))).limit(0)
    except PySparkException:  # no such table, or its catalog does not answer
        return None
    present = {name.lower() for name in rows.columns}
    return rows.withColumns({name: F.current_timestamp() for name in source.added_columns if name not in present})


def _no_columns(source: Source, runtime: Runtime | None) -> str:
    if runtime is None:
        return "without a running stack the columns of this table are unknown"
    return f"table {source.from_table} does not exist yet; start the stream that lands in it"


def _reference(spark: SparkSession, name: str, reference: Reference, runtime: Runtime | None) -> DataFrame:
    if runtime is not None and _of_the_lake(reference):
        reader = reader_of(name, reference, runtime)
        return spark.createDataFrame([], reader.read(spark, reader.version(spark)).schema)
    if runtime is not None and reference.jdbc is not None:
        return spark.createDataFrame([], of_database(name, reference.jdbc, runtime).schema())
    if reference.parquet:
        return spark.read.parquet(reference.parquet)
    if reference.columns:
        return spark.createDataFrame([], reference.columns)
    with Path(reference.csv or "").open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file), [])
    return spark.createDataFrame([], ", ".join(f"{quote(column)} STRING" for column in header))


def _expressions(spec: StreamSpec, rows: DataFrame) -> Iterator[Finding]:
    from pyspark.errors import PySparkException

    expressions: list[tuple[tuple[str | int, ...], str, bool]] = [
        (("rules", name), rule, True) for name, rule in spec.rules.items()
    ]
    if spec.sink.kafka:
        expressions += [
            (("sink", "kafka", key), text, False)
            for key, text in (("key", spec.sink.kafka.key), ("value", spec.sink.kafka.value))
            if text
        ]
    for path, text, is_condition in expressions:
        try:
            if is_condition:
                rows.filter(text)
            else:
                rows.selectExpr(text)
        except PySparkException as error:
            yield Finding(path, _message(error), _place(error))


def _columns(spec: StreamSpec, rows: DataFrame) -> Iterator[Finding]:
    columns = rows.columns
    twice = sorted({column for column in columns if [c.lower() for c in columns].count(column.lower()) > 1})
    if twice:
        yield Finding(_transform(spec), f"the SELECT has {', '.join(twice)} twice; name each column once")
    if spec.sink.rows_in:
        known = {column.lower() for column in columns}
        partitioned = [part.column for part in spec.sink.iceberg.partition_by] if spec.sink.iceberg else []
        partitioned += [str(column) for column in spec.sink.delta.partition_by] if spec.sink.delta else []
        for index, partition in enumerate(partitioned):
            if partition.lower() not in known:
                path = ("sink", spec.sink.connector, "partition_by", index)
                message = f"the transform has no column {partition!r}"
                yield Finding(path, message, None, partition, tuple(columns))
        for name, kind in rows.dtypes:
            if kind == "void":
                message = f"column {name} has no type (NULL); cast it: CAST(NULL AS STRING)"
                yield Finding(_transform(spec), message)


def _compared(spark: SparkSession, spec: StreamSpec, rows: DataFrame, has: Mapping[str, Any]) -> Comparison:
    compared = schema_evolution.compare(rows.schema.jsonValue(), has, partial(up_casts, spark))
    return schema_evolution.in_delta(compared) if spec.sink.delta and spec.schema_.evolution == "additive" else compared


@contextmanager
def _stderr_to(file: IO[bytes]) -> Iterator[None]:
    """Give a process that is started inside another stderr: the JVM prints a page of text when it starts."""
    before = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _declared_columns(source: Source) -> str:
    """The columns of a source's records, as DDL."""
    if source.declared_columns is not None:
        return source.declared_columns
    columns = {**RECORD_COLUMNS.get(source.connector, {}), f"_{source.connector}_value": "BINARY"}
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _columns_of(source: Source) -> str:
    return ", ".join(
        [_declared_columns(source), *(f"{column} {OWN_COLUMNS[column]}" for column in source.added_columns)]
    )


def _message(error: Exception) -> str:
    """The message of a Spark error, without error class, place and plan."""
    text = str(error).strip().splitlines()[0]
    text = re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", text)
    return _PLACE.sub("", re.sub(r"\s*SQLSTATE: \w+", "", text)).strip().rstrip(".;")


def _place(error: Exception) -> tuple[int, int] | None:
    found = _PLACE.search(str(error))
    return (int(found[1]), int(found[2]) + 1) if found else None
