from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lakeward.platform.errors import LakewardError, SpecError, Unhealthy
from lakeward.platform.runtime import Home, Lake, Launch, Project, Runtime, registry_url


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(
        registry_url_file=tmp_path / "registry.url",
        lake=Lake(warehouse="/w"),
        checkpoints="/c",
        drivers=tmp_path,
        jars=tmp_path,
    )


def test_a_launch_file_is_only_its_owners_business(tmp_path, runtime):
    file = tmp_path / "launch.json"
    sent = Launch(driver="demo", token="secret", folder=tmp_path, runtime=runtime)
    sent.write(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Launch.read(file) == sent


def test_a_missing_stack_is_said_with_the_next_command(tmp_path):
    with pytest.raises(LakewardError, match="lakeward stack up"):
        Runtime.load(tmp_path / "runtime.json")


@pytest.mark.parametrize("text", ['{"x": 1}', "garbage", ""])
def test_addresses_that_cannot_be_understood_are_written_again_by_stack_up(tmp_path, text):
    (tmp_path / "runtime.json").write_text(text)
    with pytest.raises(Unhealthy, match=r"(?s)runtime\.json.*lakeward stack up"):
        Runtime.load(tmp_path / "runtime.json")


@pytest.mark.parametrize("written", [b"", b"not a url", b"mysql://u:hunter2@h/d", b"\xff\xfe"])
def test_a_registry_that_is_no_postgresql_is_said_without_what_is_there(tmp_path, monkeypatch, written):
    file = tmp_path / "url"
    file.write_bytes(written)
    monkeypatch.setenv("LAKEWARD_REGISTRY_URL_FILE", str(file))
    with pytest.raises(SpecError, match=r"postgresql://USER@HOST") as refused:
        registry_url(Home(tmp_path))
    assert "hunter2" not in str(refused.value)


def test_the_registry_url_comes_from_the_named_file_first(tmp_path, monkeypatch):
    home = Home(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("postgresql://there/lakeward\n")
    monkeypatch.setenv("LAKEWARD_REGISTRY_URL_FILE", str(elsewhere))
    assert registry_url(home) == "postgresql://there/lakeward"


@pytest.mark.parametrize("content", [None, ""])
def test_a_missing_or_empty_registry_file_is_named(tmp_path, monkeypatch, content):
    monkeypatch.delenv("LAKEWARD_REGISTRY_URL_FILE", raising=False)
    home = Home(tmp_path)
    home.secrets.mkdir()
    if content is not None:
        home.registry_url_file.write_text(content)
    with pytest.raises(LakewardError, match=r"registry\.url"):
        registry_url(home)


def test_places_come_from_the_option_then_the_environment_then_here(tmp_path, monkeypatch):
    monkeypatch.setenv("LAKEWARD_PROJECT", str(tmp_path / "a"))
    monkeypatch.setenv("LAKEWARD_HOME", str(tmp_path / "h"))
    assert Project.locate(tmp_path / "b").root == tmp_path / "b"
    assert Project.locate().root == tmp_path / "a"
    assert Home.locate().root == tmp_path / "h"
    monkeypatch.delenv("LAKEWARD_HOME")
    assert Home.locate(None, Project(tmp_path / "b")).root == tmp_path / "b" / ".lakeward"


def test_a_checkpoint_is_below_the_checkpoints_unless_it_has_a_place_of_its_own(tmp_path):
    runtime = Runtime(
        registry_url_file=tmp_path / "url",
        lake=Lake(warehouse="w"),
        checkpoints="s3a://bucket/checkpoints/",
        drivers=tmp_path,
        jars=tmp_path,
    )
    assert runtime.checkpoint_of("flights/2") == "s3a://bucket/checkpoints/flights/2"
    assert runtime.checkpoint_of("/data/flights") == "/data/flights"
    assert runtime.checkpoint_of("file:///data/flights") == "file:///data/flights"


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"type": "glue", "client.region": "eu-central-1"}, "AWS Glue in eu-central-1"),
        ({"type": "glue", "glue.endpoint": "http://127.0.0.1:4566"}, "127.0.0.1:4566"),
        ({"type": "rest", "uri": "https://me@catalog.example.com/api"}, "catalog.example.com"),
        ({}, "catalog"),
    ],
)
def test_the_server_of_a_catalog_has_a_name_for_people(properties, name):
    lake = Lake(warehouse="/w", properties=properties)
    assert lake.catalog == name
    assert lake.external is bool(properties)
