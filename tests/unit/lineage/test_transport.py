from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakeward.lineage import transport
from lakeward.platform.errors import SpecError


def test_it_is_configured_by_openlineages_own_variables_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    url = {"OPENLINEAGE_URL": "http://localhost:5000"}
    assert not transport.configured({})
    assert transport.configured(url)
    assert not transport.configured({**url, "OPENLINEAGE_DISABLED": "true"})
    assert transport.configured({"OPENLINEAGE__TRANSPORT__TYPE": "file"})
    assert not transport.configured({"OPENLINEAGE_CONFIG": str(tmp_path / "away.yml")})
    (tmp_path / "openlineage.yml").write_text("transport: {type: console}\n")
    assert transport.configured({})


def test_the_namespace_of_the_jobs() -> None:
    assert transport.namespace({}) == "lakeward"
    assert transport.namespace({"OPENLINEAGE_NAMESPACE": "prod"}) == "prod"


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with pytest.raises(SpecError, match=r"lakeward\[lineage\]"):
        transport.client()


def test_a_wrong_configuration_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "openlineage.yml").write_text("transport: {type: nonsense}\n")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "openlineage.yml"))
    with pytest.raises(SpecError, match="not valid"):
        transport.client()
