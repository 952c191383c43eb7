"""A driver in a container of YARN: how it knows its application, and what it says if it has no launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.driver import yarn


@pytest.mark.parametrize(
    ("container", "application"),
    [
        ("container_1795947474311_0001_01_000001", "application_1795947474311_0001"),
        ("container_e01_1795947879606_0014_01_000001", "application_1795947879606_0014"),
        ("container_e17_1795947879606_12345_02_000009", "application_1795947879606_12345"),
        ("", ""),
    ],
)
def test_its_application_is_in_the_name_of_its_container(
    container: str, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTAINER_ID", container)
    assert yarn.handle() == {"application": application}


def test_a_node_without_the_file_of_the_registry_says_so_where_yarn_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LAKEWARD_REGISTRY_URL_FILE", raising=False)
    monkeypatch.setenv("LOG_DIRS", f"{tmp_path},/another")
    assert yarn.main(["abc", str(tmp_path / "registry.url")]) == 2
    assert "LW-2524" in capsys.readouterr().err
    assert yarn.main([]) == 2
