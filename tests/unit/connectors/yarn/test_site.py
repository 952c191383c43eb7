"""Where a YARN cluster is: entry, connection and Hadoop's own files, and what cannot be used of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.connectors.yarn import site
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import YarnPlace

HA = {
    "yarn.resourcemanager.ha.enabled": "true", "yarn.resourcemanager.ha.rm-ids": "one, two",
    "yarn.resourcemanager.hostname.one": "rm-one", "yarn.resourcemanager.webapp.address.two": "rm-two:8188",
}  # fmt: skip


@pytest.fixture
def hadoop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    folder = tmp_path / "hadoop"
    folder.mkdir()
    write(folder, {"yarn.resourcemanager.hostname": "rm"})
    return folder


def write(folder: Path, given: dict[str, str]) -> None:
    text = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in given.items())
    (folder / "yarn-site.xml").write_text(f"<configuration>{text}</configuration>")


def connect(tmp_path: Path, content: object, *, by: str = "spark") -> Path:
    folder = tmp_path / "secrets" / by
    folder.mkdir(parents=True)
    (folder / "spark_yarn.json").write_text(json.dumps(content))
    return tmp_path / "secrets"


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ({"yarn.resourcemanager.hostname": "rm"}, ("http://rm:8088",)),
        ({"yarn.resourcemanager.webapp.address": "rm:9999"}, ("http://rm:9999",)),
        (
            {
                "yarn.resourcemanager.hostname": "rm",
                "yarn.resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:8088",
            },
            ("http://rm:8088",),
        ),
        ({"yarn.resourcemanager.hostname": "rm", "yarn.http.policy": "HTTPS_ONLY"}, ("https://rm:8090",)),
        (HA, ("http://rm-one:8088", "http://rm-two:8188")),
    ],
)
def test_the_addresses_are_those_of_hadoop_s_own_file(
    hadoop: Path, given: dict[str, str], addresses: tuple[str, ...]
) -> None:
    write(hadoop, given)
    found = site.settled(YarnPlace(hadoop_conf=str(hadoop)), None)
    assert (found.resource_managers, found.queue) == (addresses, "default")


def test_the_entry_comes_before_the_connection_and_that_before_the_environment(
    hadoop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/of/the/environment")
    extra = {"queue": "theirs", "deploy-mode": "cluster", "hadoop_conf": str(hadoop), "resource_manager": "http://c:1"}
    secrets = connect(tmp_path, {"host": "yarn", "extra": json.dumps(extra)}, by="airflow/spark")
    found = site.settled(YarnPlace(connection="spark_yarn"), secrets)
    assert (found.queue, found.hadoop_conf, found.resource_managers) == ("theirs", str(hadoop), ("http://c:1",))
    own = YarnPlace(connection="spark_yarn", queue="ours", hadoop_conf="/ours", resource_managers=("http://e:1",))
    found = site.settled(own, secrets)
    assert (found.queue, found.hadoop_conf, found.resource_managers) == ("ours", "/ours", ("http://e:1",))


def test_what_airflow_s_command_line_prints_is_a_connection(hadoop: Path, tmp_path: Path) -> None:
    extra = json.dumps({"queue": "theirs", "deploy-mode": "cluster", "namespace": "default"})
    printed = {"id": "1", "conn_id": "spark_yarn", "conn_type": "spark", "host": "yarn", "port": None, "extra": extra}
    secrets = connect(tmp_path, [printed])
    assert site.settled(YarnPlace(connection="spark_yarn", hadoop_conf=str(hadoop)), secrets).queue == "theirs"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"host": "spark://h:7077"}, "is of spark://h:7077, and not of YARN"),
        ({"host": "local"}, "and not of YARN"),
        ({}, "is of no host"),
        ({"host": "yarn", "extra": {"deploy-mode": "client"}}, "runs in cluster mode"),
        (["no", "object"], "is no JSON object"),
        ({"host": "yarn", "extra": ["queue"]}, "is no JSON object"),
        ({"host": "yarn", "extra": "{"}, "is no JSON object"),
    ],
)
def test_a_connection_that_cannot_be_used_says_why(hadoop: Path, tmp_path: Path, content: object, words: str) -> None:
    secrets = connect(tmp_path, content)
    with pytest.raises(SpecError) as error:
        site.settled(YarnPlace(connection="spark_yarn", hadoop_conf=str(hadoop)), secrets)
    assert error.value.code == "LW-2564" and words in error.value.why


def test_what_is_missing_is_named(hadoop: Path, tmp_path: Path) -> None:
    for place, words in (
        (YarnPlace(), "no folder with yarn-site.xml is named"),
        (YarnPlace(hadoop_conf="/nowhere"), "/nowhere/yarn-site.xml: No such file"),
        (YarnPlace(connection="spark_yarn"), "connection spark_yarn does not exist"),
    ):
        with pytest.raises(SpecError) as error:
            site.settled(place, tmp_path)
        assert error.value.code == "LW-2564" and words in error.value.why
    for text, words in (("<configuration>", "is no XML"), ("<configuration/>", "names no ResourceManager")):
        (hadoop / "yarn-site.xml").write_text(text)
        with pytest.raises(SpecError) as error:
            site.settled(YarnPlace(hadoop_conf=str(hadoop)), None)
        assert words in error.value.why
