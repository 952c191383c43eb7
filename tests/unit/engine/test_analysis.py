"""What Spark's analysis refuses comes back as findings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lakeward.engine import analysis
from lakeward.engine.analysis import findings
from lakeward.jars import own
from lakeward.platform.runtime import CatalogLogin, Lake, Runtime
from lakeward.spec.model.stream import StreamSpec


class Refuses:
    """A Spark that reads no column."""

    def newSession(self) -> Refuses:
        return self

    def createDataFrame(self, rows: list[Any], schema: str) -> Any:
        from pyspark.errors import ParseException

        raise ParseException(f"[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601\n== SQL ==\n{schema}")


def test_columns_that_spark_cannot_read_are_reported():
    spec = StreamSpec.model_validate({
        "id": "s", "owner": "o", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 1}},
        "decode": {"json": "a INT"}, "sink": {"iceberg": {"table": "n.t"}},
    })  # fmt: skip
    (found,) = findings(Refuses(), spec)  # type: ignore[arg-type]  # only what is called first
    assert found.path == ("sources", "source", "decode", "json")
    assert found.message == "Spark cannot read these columns: Syntax error at or near 'x'"
    assert found.value == "a INT"


def test_a_session_with_the_lake_has_the_class_of_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg loads it by its own class loader, from the class path of the JVM."""
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", "")
    login = CatalogLogin(connection="c", connections=tmp_path)
    rest = Lake(name="staging", warehouse="w", properties={"type": "rest", "uri": "https://s"}, login=login)
    runtime = Runtime(
        registry_url_file=tmp_path / "url", checkpoints=str(tmp_path), drivers=tmp_path,
        jars=tmp_path,
        lake=Lake(warehouse=str(tmp_path), others=(rest,)),
    )  # fmt: skip
    monkeypatch.setattr("lakeward.jars.spark_classpath", lambda _: [tmp_path / "spark.jar"])
    monkeypatch.setattr("lakeward.jars.s3_classpath", lambda _: [tmp_path / "s3.jar"])
    conf = analysis._lake(runtime)
    assert conf["spark.sql.catalog.staging.uri"] == "https://s"
    assert str(own.LOGIN_JAR) in os.environ["SPARK_DIST_CLASSPATH"]
