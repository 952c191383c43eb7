"""A jar of another Spark or Scala is found by its name, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.jars import check, fitting
from lakeward.jars.fitting import Engine
from lakeward.platform.errors import SpecError
from lakeward.platform.failures import FailureClass, classify
from lakeward.platform.runtime import Lake, Launch, Runtime
from lakeward.stack import doctor

HERE = Engine("4.1", "2.13")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("iceberg-spark-runtime-4.1_2.13-1.12.0.jar", ""),
        ("delta-spark_4.1_2.13-4.4.0.jar", ""),
        ("hudi-spark4.1-bundle_2.13-1.2.0.jar", ""),
        ("spark-avro_2.13-4.1.3.jar", ""),
        ("delta-spark_2.13-4.0.0.jar", ""),  # says nothing of Spark
        ("kafka-clients-3.9.1.jar", ""),
        ("postgresql-42.7.7.jar", ""),
        ("iceberg-spark-runtime-3.5_2.12-1.7.1.jar", "Spark 3.5 and Scala 2.12"),
        ("iceberg-spark-runtime-4.0_2.13-1.10.0.jar", "Spark 4.0"),
        ("delta-core_2.12-2.4.0.jar", "Scala 2.12"),
        ("hudi-spark3.5-bundle_2.12-1.0.2.jar", "Spark 3.5 and Scala 2.12"),
        ("spark-sql-kafka-0-10_2.13-3.5.1.jar", "Spark 3.5"),
        ("mine_3-1.0.jar", "Scala 3"),
    ],
)
def test_what_a_jar_says_it_was_built_for(name: str, words: str) -> None:
    assert fitting.misfit(name, HERE) == words


def test_the_jars_of_the_list_fit_the_spark_that_is_installed() -> None:
    names = [name.rpartition("/")[2] for name in check.listed() if name.startswith("spark/")]
    fitting.check(map(Path, names), names)


@pytest.mark.parametrize("bad", ["iceberg-spark-runtime-3.5_2.13-1.7.1.jar", "mine_2.12-1.0.jar"])
def test_a_driver_is_warned_before_spark_starts_and_so_is_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    from lakeward.connectors.spark import connect_server
    from lakeward.engine import session

    jars = tmp_path / "jars"
    (jars / "spark").mkdir(parents=True)
    for name in ("postgresql-42.7.7.jar", bad):
        (jars / "spark" / name).write_bytes(b"")
    monkeypatch.setenv("LAKEWARD_JARS", str(jars))
    runtime = Runtime(
        registry_url_file=tmp_path / "none", lake=Lake(warehouse=str(tmp_path)), checkpoints=str(tmp_path),
        drivers=tmp_path, jars=jars / "spark",
    )  # fmt: skip
    with pytest.raises(SpecError, match=f"The jar {bad} does not fit Spark ") as told:
        session.conf(Launch(driver="core", token="t", folder=tmp_path, runtime=runtime))
    assert told.value.next == f"rm {jars / 'spark' / bad}"
    assert "with a missing class or method" in told.value.why
    assert classify(error=told.value) is FailureClass.CONFIG
    with pytest.raises(SpecError):
        connect_server.server_conf(1, "1g", tmp_path)
    said = doctor.jar_files()
    assert not said.ok
    assert bad in said.found
    assert said.next == told.value.next


def test_another_pyspark_than_the_pinned_one_is_reported_by_our_own_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.0.2.jar").touch()
    monkeypatch.setattr(fitting, "pyspark_jars", lambda: tmp_path / "jars")
    ours = "iceberg-spark-runtime-4.1_2.13-1.12.0.jar"
    with pytest.raises(SpecError, match=r"does not fit Spark 4\.0") as told:
        fitting.check([Path("spark-sql-kafka-0-10_2.13-4.1.3.jar"), Path(ours)], [ours])
    assert told.value.next == "rm spark-sql-kafka-0-10_2.13-4.1.3.jar"
    with pytest.raises(SpecError) as told:
        fitting.check([Path(ours)], [ours])
    assert told.value.next.startswith("uv sync")
