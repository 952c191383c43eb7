"""The file of a login: found by its connection, refused with its place, never repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.connectors.iceberg.catalogs import login
from lakeward.platform import private
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import CatalogLogin


def write(folder: Path, content: object, name: str = "polaris") -> Path:
    return private.write(private.folder(folder) / f"{name}.json", json.dumps(content))


def test_airflows_file_wins_and_is_expected_where_there_is_none(tmp_path: Path) -> None:
    connection = CatalogLogin(connection="polaris", connections=tmp_path)
    theirs = tmp_path / "airflow" / "iceberg"
    assert login.path(connection) == theirs / "polaris.json"
    own = write(tmp_path / "iceberg", {"token": "t"})
    assert login.path(connection) == own
    write(theirs, {"token": "t"})
    assert login.path(connection) == theirs / "polaris.json"
    assert login.names(tmp_path) == ["polaris"]


@pytest.mark.parametrize(
    "content",
    [
        {"token": "t"},
        {"credential": "id:s3cret", "scope": "PRINCIPAL_ROLE:ALL", "oauth2-server-uri": "https://h/t", "audience": "a"},
        {"rest.auth.basic.username": "u", "rest.auth.basic.password": "s3cret"},
    ],
)
def test_each_kind_of_login_is_read(tmp_path: Path, content: dict[str, str]) -> None:
    assert login.read(write(tmp_path, content)) == content


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({}, "exactly one of token, credential"),
        ({"scope": "s3cret"}, "exactly one of token, credential"),
        ({"token": "s3cret", "credential": "s3cret"}, "exactly one of token, credential"),
        ({"rest.auth.basic.username": "s3cret"}, "exactly one of token, credential"),
        ({"rest.auth.basic.password": "s3cret"}, "exactly one of token, credential"),
        ({"token": "s3cret", "colour": "s3cret"}, "colour is unknown; valid: token, credential"),
        ({"token": 3}, "one JSON object of strings"),
        ({"token": ""}, "one JSON object of strings"),
        ({"token": "s3cret\n"}, "token has a line break"),
        ({"credential": "id:s3\r\ncret", "scope": "a b"}, "credential has a line break"),
        (["s3cret"], "one JSON object of strings"),
    ],
)
def test_a_wrong_file_is_named_and_not_repeated(tmp_path: Path, content: object, why: str) -> None:
    file = write(tmp_path / "iceberg", content)
    with pytest.raises(SpecError, match="polaris of the REST catalog is not valid") as wrong:
        login.read(file)
    assert why in wrong.value.why
    assert str(file) in wrong.value.why
    assert "s3cret" not in str(wrong.value)


def test_text_that_is_not_json_is_not_repeated(tmp_path: Path) -> None:
    file = private.write(private.folder(tmp_path / "airflow" / "iceberg") / "polaris.json", "s3cret")
    with pytest.raises(SpecError) as wrong:
        login.read(file)
    assert wrong.value.why == "Airflow connection polaris: it must be one JSON object of strings"


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, {"token": "t"})
    file.chmod(0o640)
    with pytest.raises(SpecError, match="readable by other users") as wrong:
        login.read(file)
    assert wrong.value.next == f"chmod 600 {file}"


@pytest.mark.parametrize("place", ["iceberg", "airflow/iceberg"])
def test_an_unknown_connection_names_the_known_ones(tmp_path: Path, place: str) -> None:
    write(tmp_path / "iceberg", {"token": "t"}, "lakekeeper")
    with pytest.raises(SpecError, match="'polaris' of the REST catalog does not exist") as wrong:
        login.read(tmp_path / place / "polaris.json")
    assert wrong.value.why == "known connections: lakekeeper"
    assert str(tmp_path / "iceberg" / "polaris.json") in wrong.value.next
