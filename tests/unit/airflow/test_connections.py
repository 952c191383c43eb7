from __future__ import annotations

import stat
from pathlib import Path

import pytest
from airflow_given import Given

from lakeward.airflow import connections
from lakeward.airflow.connection_files import KAFKA
from lakeward.airflow.connections import CONNECT, REGISTRY, compose
from lakeward.connectors.aws import account
from lakeward.connectors.iceberg.catalogs import login
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import CatalogLogin, Home, Lake, ObjectStore, Runtime


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.secrets.mkdir()
    home.registry_url_file.write_text("postgresql+psycopg2://lakeward@127.0.0.1:5433/lakeward\n")
    home.pgpass.write_text("127.0.0.1:5433:*:lakeward:embedded\n127.0.0.1:5433:*:catalog:other\n")
    runtime = Runtime(
        registry_url_file=home.registry_url_file,
        pgpass=home.pgpass,
        lake=Lake(warehouse=str(home.warehouse)),
        kafka={KAFKA: "127.0.0.1:9092"},
        connect="localhost:15002",
        checkpoints=str(home.checkpoints),
        drivers=home.drivers,
        jars=tmp_path,
    )
    home.runtime_file.write_text(runtime.model_dump_json())
    return home


def test_without_connections_the_stacks_own_addresses_hold(home: Home) -> None:
    assert compose(home, {}) == Runtime.load(home.runtime_file)
    assert compose(home, {REGISTRY: None, CONNECT: None}) == Runtime.load(home.runtime_file)


def test_the_embedded_connections_write_nothing_new(home: Home) -> None:
    registry = Given("127.0.0.1", 5433, "lakeward", "embedded", "lakeward")
    assert compose(home, {REGISTRY: registry}) == Runtime.load(home.runtime_file)
    assert not (home.secrets / "airflow").exists()


def test_a_registry_elsewhere_gets_private_files_and_keeps_the_catalogs_password(home: Home) -> None:
    made = compose(home, {REGISTRY: Given("db.example", 5432, "ward", "p:w\\d", "registry")})
    assert made.registry_url_file.read_text() == "postgresql+psycopg2://ward@db.example:5432/registry"
    assert made.pgpass is not None
    lines = made.pgpass.read_text().splitlines()
    assert lines[0] == "db.example:5432:*:ward:p\\:w\\\\d"
    assert "127.0.0.1:5433:*:catalog:other" in lines
    for file in (made.registry_url_file, made.pgpass):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert compose(home, {REGISTRY: Given("db.example", 5432, "ward", "p:w\\d", "registry")}) == made


def test_a_changed_password_is_another_file(home: Home) -> None:
    first = compose(home, {REGISTRY: Given("db.example", 5432, "ward", "one", "registry")})
    second = compose(home, {REGISTRY: Given("db.example", 5432, "ward", "two", "registry")})
    assert first.pgpass != second.pgpass


def test_no_secret_is_in_the_runtime(home: Home) -> None:
    given = {
        REGISTRY: Given("db.example", 5432, "ward", "s3cret", "registry"),
        CONNECT: Given("sc://spark.example", 15002, password="t0ken"),
    }
    text = compose(home, given).model_dump_json()
    assert "s3cret" not in text
    assert "t0ken" not in text


def test_the_connect_server_is_never_reached_by_number(home: Home) -> None:
    made = compose(home, {CONNECT: Given("sc://127.0.0.1", 15010, password="t0ken")})
    assert made.connect == "localhost:15010"
    assert made.connect_token_file is not None
    assert made.connect_token_file.read_text() == "t0ken"


def test_a_stack_that_was_never_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(LakewardError, match="No Lakeward stack was found"):
        compose(Home(tmp_path), {})


@pytest.mark.parametrize("spark", [False, True])
def test_a_task_has_the_files_of_the_catalog_before_it_uses_it(
    home: Home, monkeypatch: pytest.MonkeyPatch, *, spark: bool
) -> None:
    lake = Lake(
        warehouse=str(home.warehouse),
        properties={"type": "rest", "uri": "http://127.0.0.1:9"},
        login=CatalogLogin(connection="polaris", connections=home.secrets),
        store=ObjectStore(connection="lakeward_s3", connections=home.secrets),
    )
    addresses = Runtime.load(home.runtime_file).model_copy(update={"lake": lake})
    home.registry_url_file.write_text("postgresql+psycopg2://lakeward@127.0.0.1:9/lakeward")
    home.runtime_file.write_text(addresses.model_dump_json())
    monkeypatch.setenv("LAKEWARD_HOME", str(home.root))
    for name in (REGISTRY, CONNECT, KAFKA):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", '{"conn_type": "generic"}')
    monkeypatch.setenv("AIRFLOW_CONN_POLARIS", '{"conn_type": "iceberg", "login": "id", "password": "s3cret"}')
    monkeypatch.setenv("AIRFLOW_CONN_LAKEWARD_S3", '{"conn_type": "aws", "login": "K", "password": "s3cret"}')
    made = connections.runtime(spark=spark)
    assert made.lake.login is not None
    assert login.read(login.path(made.lake.login)) == {"credential": "id:s3cret"}
    assert account.find("lakeward_s3", made.connections).keys() == {account.KEY: "K", account.SECRET: "s3cret"}
