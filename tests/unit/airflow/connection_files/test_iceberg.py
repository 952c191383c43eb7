"""Airflow's Iceberg connections as login files of the home."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from airflow_given import Given

from lakeward.airflow.connection_files import ADAPTERS
from lakeward.connectors.iceberg.catalogs import login
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import CatalogLogin, Home, Lake, Runtime

ICEBERG = ADAPTERS["iceberg"]


def deployment(folder: Path) -> Runtime:
    url = folder / "url"
    url.write_text("postgresql://nobody@127.0.0.1:9/none")
    lake = Lake(
        warehouse="/w", properties={"type": "rest"}, login=CatalogLogin(connection="polaris", connections=folder)
    )
    return Runtime(registry_url_file=url, lake=lake, checkpoints="/c", drivers=folder, jars=folder, connections=folder)


def test_the_login_of_the_catalog_is_written_also_while_the_registry_is_away(tmp_path: Path) -> None:
    runtime = deployment(tmp_path)
    assert ICEBERG.named(runtime) == {"polaris"}
    given = Given("https://not.used", None, "id", "s3cret", None, {"scope": "PRINCIPAL_ROLE:ALL"})
    ICEBERG.keep(runtime, Home(tmp_path), ["polaris"], {"polaris": given}.get)
    [file] = (tmp_path / "airflow" / "iceberg").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert runtime.lake.login is not None
    assert login.path(runtime.lake.login) == file
    assert login.read(file) == {"credential": "id:s3cret", "scope": "PRINCIPAL_ROLE:ALL"}
    os.utime(file, (0, 0))
    ICEBERG.keep(runtime, Home(tmp_path), ["polaris"], {}.get)
    assert file.exists(), "a secrets backend that is away takes nothing"
    ICEBERG.keep(runtime, Home(tmp_path), [], {}.get)
    assert not file.exists()


@pytest.mark.parametrize(
    ("user", "password", "extra", "expected"),
    [
        (None, "s3cret", {}, {"token": "s3cret"}),
        ("id", "s3cret", {"token": "t"}, {"token": "t"}),
        ("id", "s3cret", {"credential": "other:s"}, {"credential": "other:s"}),
        ("id", "s3cret", {"token": "", "scope": None}, {"credential": "id:s3cret"}),
        (
            "id",
            "s3cret",
            {"rest.auth.basic.username": "u", "rest.auth.basic.password": "p"},
            {"rest.auth.basic.username": "u", "rest.auth.basic.password": "p"},
        ),
    ],
)
def test_the_extra_wins(
    tmp_path: Path, user: str | None, password: str, extra: dict[str, Any], expected: dict[str, str]
) -> None:
    given = Given(None, None, user, password, None, extra)
    ICEBERG.keep(deployment(tmp_path), Home(tmp_path), ["polaris"], {"polaris": given}.get)
    assert login.read(tmp_path / "airflow" / "iceberg" / "polaris.json") == expected


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Given(None, None, "id", "s3cret", None, {"colour": "red"}), "colour is unknown"),
        (Given(None, None, "s3cret", None, None, {}), "it must have exactly one of token, credential"),
        (Given(None, None, None, "s3cret\n", None, {}), "token has a line break"),
        (Given(None, None, "id", "s3cret", None, {"scope": ["s3cret"]}), "it must be one JSON object of strings"),
    ],
)
def test_a_wrong_connection_is_refused_without_its_secret_when_it_is_used(
    tmp_path: Path, given: Given, why: str
) -> None:
    ICEBERG.keep(deployment(tmp_path), Home(tmp_path), ["polaris"], {"polaris": given}.get)
    with pytest.raises(SpecError, match="polaris of the REST catalog is not valid") as told:
        login.read(tmp_path / "airflow" / "iceberg" / "polaris.json")
    assert told.value.why.startswith(f"Airflow connection polaris: {why}")
    assert "s3cret" not in str(told.value)
