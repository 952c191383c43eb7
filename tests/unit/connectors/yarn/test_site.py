"""Where a YARN cluster is: entry and Hadoop's own files, and what cannot be used of them."""

from __future__ import annotations

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
    found = site.settled(YarnPlace(hadoop_conf=str(hadoop)))
    assert (found.resource_managers, found.queue) == (addresses, "default")


def test_the_entry_comes_before_the_environment(hadoop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop))
    assert site.settled(YarnPlace()).hadoop_conf == str(hadoop)
    found = site.settled(YarnPlace(queue="ours", hadoop_conf="/ours", resource_managers=("http://e:1",)))
    assert (found.queue, found.hadoop_conf, found.resource_managers) == ("ours", "/ours", ("http://e:1",))


def test_what_is_missing_is_named(hadoop: Path) -> None:
    for place, words in (
        (YarnPlace(), "no folder with yarn-site.xml is named"),
        (YarnPlace(hadoop_conf="/nowhere"), "/nowhere/yarn-site.xml: No such file"),
    ):
        with pytest.raises(SpecError) as error:
            site.settled(place)
        assert error.value.code == "LW-2564" and words in error.value.why
    for text, words in (("<configuration>", "is no XML"), ("<configuration/>", "names no ResourceManager")):
        (hadoop / "yarn-site.xml").write_text(text)
        with pytest.raises(SpecError) as error:
            site.settled(YarnPlace(hadoop_conf=str(hadoop)))
        assert words in error.value.why
