"""`config validate --deep`: what only Spark can tell about a spec: types, functions, columns.

A local Spark session without jars, catalogs or network analyses each transform over empty tables of the declared
columns. Nothing is read but the headers of reference files, nothing is written, nothing runs.
"""

from __future__ import annotations

import csv
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lakeward.errors import LakewardError
from lakeward.runtime import Project
from lakeward.spec.document import read_document
from lakeward.spec.files import dotted
from lakeward.spec.loader import Loaded, LoadedStream
from lakeward.spec.positions import POSITION_TYPES
from lakeward.spec.problems import Problem, nearest
from lakeward.spec.sources import Reference, Source
from lakeward.spec.sql import quote
from lakeward.spec.stream import written_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RAW = "key BINARY, value BINARY"
_PLACE = re.compile(r";? ?line (\d+),? pos (\d+)")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "1",
}


def deep_problems(project: Project, loaded: Loaded) -> list[Problem]:
    """Everything Spark's analysis finds wrong with the transforms, rules and sinks of a project without problems."""
    with _session() as spark:
        return [problem for name in sorted(loaded.streams) for problem in _Deep(project, loaded.streams[name], spark)]


@contextmanager
def _session() -> Iterator[SparkSession]:
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    from lakeward import jars

    jars.find_java()  # says in one sentence what is missing, where Spark would print a shell script's complaint
    # Spark logs every analysis error with its stack trace; here they come back as problems.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    builder = SparkSession.builder.master("local[1]").appName("lakeward config validate")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    with tempfile.TemporaryFile() as chatter:
        try:
            with _stderr_to(chatter):
                spark = builder.getOrCreate()
        except Exception as error:  # noqa: BLE001 - pyspark raises bare exceptions when its JVM does not come up
            chatter.seek(0)
            said = chatter.read().decode(errors="replace").strip().splitlines()[-5:]
            raise LakewardError("Spark did not start", why="\n        ".join([str(error), *said]),
                                next="lakeward doctor") from None  # fmt: skip
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def _stderr_to(file: IO[bytes]) -> Iterator[None]:
    """Give what is started inside another stderr for its whole life: the JVM greets people with a page of text."""
    before = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


class _Deep:
    """One stream against Spark."""

    def __init__(self, project: Project, stream: LoadedStream, spark: SparkSession) -> None:
        self.project = project
        self.stream = stream
        self.spark = spark.newSession()  # views of one stream are not seen by another

    def __iter__(self) -> Iterator[Problem]:
        from pyspark.errors import PySparkException

        spec = self.stream.spec
        for name, source in spec.sources.items():
            self._empty(_columns_of(source)).createOrReplaceTempView(name)
        for name, reference in spec.reference.items():
            try:
                self._reference(reference).createOrReplaceTempView(name)
            except (PySparkException, OSError) as error:
                yield self._problem(("reference", name, reference.kind), f"Spark cannot read it: {_said(error)}")
                return
        try:
            rows = self.spark.sql(spec.transform.sql or "")
        except PySparkException as error:
            yield self._problem(("transform", "sql"), _said(error), _place(error))
            return
        yield from self._expressions(rows)
        yield from self._columns(rows)

    def _empty(self, ddl: str) -> DataFrame:
        return self.spark.createDataFrame([], ddl)

    def _reference(self, reference: Reference) -> DataFrame:
        if reference.parquet:
            return self.spark.read.parquet(reference.parquet)
        if reference.columns:
            return self._empty(reference.columns)
        with Path(reference.csv or "").open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
        return self._empty(", ".join(f"{quote(column)} STRING" for column in header))

    def _expressions(self, rows: DataFrame) -> Iterator[Problem]:
        from pyspark.errors import PySparkException

        spec = self.stream.spec
        asked: list[tuple[tuple[str | int, ...], str, bool]] = [
            (("rules", name), rule, True) for name, rule in spec.rules.items()
        ]
        if spec.sink.kafka:
            asked += [
                (("sink", "kafka", key), text, False)
                for key, text in (("key", spec.sink.kafka.key), ("value", spec.sink.kafka.value))
                if text
            ]
        for path, text, is_condition in asked:
            try:
                if is_condition:
                    rows.filter(text)
                else:
                    rows.selectExpr(text)
            except PySparkException as error:
                yield self._problem(path, _said(error), _place(error))

    def _columns(self, rows: DataFrame) -> Iterator[Problem]:
        spec = self.stream.spec
        columns = rows.columns
        twice = sorted({column for column in columns if [c.lower() for c in columns].count(column.lower()) > 1})
        if twice:
            message = f"the SELECT gives {', '.join(twice)} twice; name each column once"
            yield self._problem(("transform", "sql"), message)
        if spec.sink.iceberg:
            known = {column.lower() for column in columns}
            for index, part in enumerate(spec.sink.iceberg.partition_by):
                if part.column.lower() not in known:
                    path = ("sink", "iceberg", "partition_by", index)
                    message = f"the transform gives no column {part.column!r}"
                    yield self._problem(path, message, None, part.column, columns)
            for name, kind in rows.dtypes:
                if kind == "void":
                    message = f"column {name} has no type (NULL); cast it: CAST(NULL AS STRING)"
                    yield self._problem(("transform", "sql"), message)

    def _problem(
        self, path: tuple[str | int, ...], message: str, place: tuple[int, int] | None = None,
        value: str | None = None, valid: list[str] | None = None,
    ) -> Problem:  # fmt: skip
        file = self.project.root / self.stream.file
        document = read_document(file.read_text(encoding="utf-8"))
        written: Any = written_path(path, document.data)
        if path == ("transform", "sql") and self.stream.sql_file:
            name, (line, column) = self.stream.sql_file, place or (1, 1)
        else:
            at = document.inside(written, *(place or (None, None)))
            name, line, column = self.stream.file, at.line, at.column
        words = tuple(valid or ())
        return Problem(name, line, column, dotted(written), message, value, words, nearest(value or "", words))


def _columns_of(source: Source) -> str:
    declared = source.decode.json_ if source.decode and source.decode.json_ else _RAW
    return ", ".join([declared, *(f"{column} {POSITION_TYPES[column]}" for column in source.position_columns)])


def _said(error: Exception) -> str:
    """Spark's own sentence, without its error class, its place and its plan."""
    text = str(error).strip().splitlines()[0]
    text = re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", text)
    return _PLACE.sub("", re.sub(r"\s*SQLSTATE: \w+", "", text)).strip().rstrip(".;")


def _place(error: Exception) -> tuple[int, int] | None:
    found = _PLACE.search(str(error))
    return (int(found[1]), int(found[2]) + 1) if found else None
