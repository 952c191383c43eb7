"""Packages of a stream, installed by uv from an index that needs no network."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

import pytest
from wheels import index, wheel

from lakeward.connectors.python import packages
from lakeward.platform.errors import DependencyDown, SpecError


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "offered"
    folder.mkdir()
    monkeypatch.setenv("UV_CONFIG_FILE", str(index(folder)))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def test_what_is_missing_is_installed_once_and_never_asked_for_again(offered: Path, tmp_path: Path) -> None:
    here = metadata.version("pydantic")
    lines = [
        f"pydantic=={here} --hash=sha256:{'0' * 64}",
        wheel(offered, "shouting", "1.0", "def shout(text): return text.upper()\n"),
        f"winnish==1.0 ; sys_platform == 'win32' --hash=sha256:{'0' * 64}",
    ]
    folder = packages.install("s", lines, tmp_path / "environments")
    assert (folder / "shouting.py").exists()
    assert not (folder / "pydantic").exists(), "the driver has it, in this version"
    assert [each.name for each in (tmp_path / "environments").iterdir()] == [folder.name], "nothing half made is left"
    shutil.rmtree(offered)
    assert packages.install("s", lines, tmp_path / "environments") == folder


def test_what_cannot_be_had_is_said_and_leaves_nothing(
    offered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, places = wheel(offered, "shouting", "1.0", ""), tmp_path / "environments"
    for lines, words in (
        ([line[:-4] + "0000"], "ash"),  # a hash of another file
        ([line.replace("1.0", "1.1")], "shouting==1.1"),
        ([f"pydantic==1.0 --hash=sha256:{'0' * 64}"], f"pydantic=={metadata.version('pydantic')} (required: 1.0)"),
    ):
        with pytest.raises(SpecError) as refused:
            packages.install("s", lines, places)
        assert words in refused.value.why
        assert "requirements" in refused.value.next or "--constraint" in refused.value.next
    monkeypatch.delenv("UV_CONFIG_FILE")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://me:pa55-word@127.0.0.1:1/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(DependencyDown, match="does not answer") as down:
        packages.install("s", [line], places)
    assert "pa55-word" not in str(down.value)
    assert list(places.iterdir()) == []
