"""Where the jars are, and what goes on which classpath."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.jars import places
from lakeward.platform.errors import LakewardError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("spark/iceberg-spark-runtime-1.jar", "spark/iceberg-aws-bundle-1.jar", "kafka/kafka_2.13-4.jar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv("LAKEWARD_JARS", str(tmp_path))
    return tmp_path


def test_the_aws_bundle_is_there_only_when_asked_for(folder: Path) -> None:
    assert [jar.name for jar in places.spark_classpath()] == ["iceberg-spark-runtime-1.jar"]
    assert [jar.name for jar in places.s3_classpath()] == ["iceberg-aws-bundle-1.jar"]


def test_runtime_jars_and_the_folder_above_it_give_the_same(folder: Path) -> None:
    assert places.spark_classpath(folder) == places.spark_classpath(folder / "spark") == places.spark_classpath()


def test_the_broker_takes_scala_and_logging_from_pyspark(folder: Path) -> None:
    names = [jar.name for jar in places.kafka_classpath()]
    assert names[0] == "kafka_2.13-4.jar"
    for prefix in places.FROM_PYSPARK:
        assert [name for name in names if name.startswith(prefix)], prefix


def test_without_jars_the_command_that_fetches_them_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWARD_JARS", str(tmp_path))
    with pytest.raises(LakewardError) as error:
        places.spark_classpath()
    assert error.value.next == "python -m lakeward.jars"


def test_another_list_means_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEWARD_JARS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    here = places.folder()
    changed = tmp_path / "list"
    changed.write_text(places.check.LIST.read_text() + "\n")
    monkeypatch.setattr(places.check, "LIST", changed)
    assert here.is_relative_to(tmp_path / "lakeward" / "jars")
    assert places.folder() != here
