from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakeward.jars import archive


@pytest.fixture
def jars(tmp_path, monkeypatch):
    """A folder with one jar, and an environment of its own for the archive."""
    folder = tmp_path / "jars" / "spark"
    folder.mkdir(parents=True)
    (folder / "iceberg-1.jar").write_bytes(b"one")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    return folder


def test_another_jar_is_another_archive(jars):
    before = archive.file(jars)
    (jars / "iceberg-1.jar").write_bytes(b"two and more")
    after = archive.file(jars)
    assert before != after
    assert before.parent == after.parent == Path(sys.prefix) / "share" / "lakeward"


def test_without_an_archive_nothing_is_asked_of_java(jars):
    assert archive.options(jars) == []
    archive.file(jars).parent.mkdir(parents=True)
    archive.file(jars).write_bytes(b"classes")
    assert archive.options(jars)[0] == f"-XX:SharedArchiveFile={archive.file(jars)}"


def test_a_session_uses_the_archive_only_with_the_class_path_it_was_made_for(jars, tmp_path):
    assert archive.conf(tmp_path / "never downloaded") == {}
    assert archive.conf(jars) == {}
    archive.file(jars).parent.mkdir(parents=True)
    archive.file(jars).write_bytes(b"classes")
    conf = archive.conf(jars)
    assert conf["spark.driver.extraClassPath"] == str(jars / "iceberg-1.jar")
    assert conf["spark.driver.extraJavaOptions"].split()[:2] == archive.options(jars)[:2]


def test_where_no_archive_can_be_made_it_is_reported_and_stops_nobody(jars, monkeypatch):
    monkeypatch.setenv("LAKEWARD_JARS", str(jars.parent))
    Path(sys.prefix).write_text("a file where the environment's folder should be")
    said: list[str] = []
    assert archive.ensure(said.append) is None
    assert "Spark starts slower here" in said[-1]
    assert archive.options() == []
