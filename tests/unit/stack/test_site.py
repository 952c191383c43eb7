"""The addresses everybody else reads, and the environment programs get."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.jars import Java
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Home, ObjectStore, Project, Runtime
from lakeward.stack.site import StackContext
from lakeward.stack.state import DEFAULT_PORTS


@pytest.fixture
def site(tmp_path: Path) -> StackContext:
    return StackContext(Project(tmp_path), Home(tmp_path / "home"), dict(DEFAULT_PORTS), Java(Path("/j/bin/java"), 17))


def test_what_is_written_is_what_others_load(site: StackContext) -> None:
    site.write()
    runtime = Runtime.load(site.home.runtime_file)
    assert runtime == site.runtime()
    assert runtime.registry_url_file.read_text().strip() == "postgresql+psycopg2://lakeward@127.0.0.1:15432/lakeward"
    assert runtime.connect == "localhost:15002"
    assert runtime.lake.user == "catalog"
    assert runtime.connect_token_file is not None
    assert len(runtime.connect_token_file.read_text().strip()) >= 32
    assert runtime.pgpass is not None
    assert "127.0.0.1:15432:*:catalog:" in runtime.pgpass.read_text()


def test_the_catalogs_password_file_opens_nothing_else(site: StackContext) -> None:
    site.write()
    users = {line.split(":")[3] for line in site.catalog_pgpass.read_text().splitlines()}
    assert users == {"catalog"}


def test_programs_inherit_only_what_is_named(site: StackContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "SequentialExecutor")
    monkeypatch.setenv("PGPASSWORD", "x")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "intranet")
    monkeypatch.setenv("LAKEWARD_DRIVER_WRAPPER", "systemd-run --user --scope --")
    environment = site.environment(MORE="yes")
    assert "AIRFLOW__CORE__EXECUTOR" not in environment
    assert "PGPASSWORD" not in environment
    assert environment["https_proxy"] == "http://proxy:3128"
    assert environment["no_proxy"] == "intranet,localhost,127.0.0.1", "our own parts are never asked through a proxy"
    assert environment["PGPASSFILE"] == str(site.home.pgpass)
    assert environment["PATH"].split(os.pathsep)[1] == "/j/bin"
    assert environment["LAKEWARD_DRIVER_WRAPPER"] == "systemd-run --user --scope --", "the scheduler starts drivers"
    assert environment["MORE"] == "yes"


@pytest.mark.parametrize(
    "block", ["type: glue, warehouse: s3://l/w", "type: rest, uri: 'https://c', signing_name: s3tables"]
)
def test_the_aws_connection_of_a_catalog_is_that_of_its_files(site: StackContext, tmp_path: Path, block: str) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "lakeward.yaml"
    file.write_text(f"catalogs: {{prod: {{{block}, region: eu-central-1, connection: lakeward_aws}}}}\n")
    lake = site.runtime().lake
    assert lake.login is None
    assert lake.store == ObjectStore(connection="lakeward_aws", connections=site.home.secrets)
    file.write_text(f"catalogs: {{prod: {{{block}, region: eu-central-1}}}}\n")
    assert replace(site).runtime().lake.store == ObjectStore(connections=site.home.secrets), "the machine's identity"


def test_a_warehouse_and_checkpoints_of_the_settings_are_everybodys(site: StackContext, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "lakeward.yaml"
    file.write_text("catalog: {warehouse: s3://lake/w, connection: lakeward_s3}\ncheckpoints: s3://lake/c\n")
    runtime = site.runtime()
    assert (runtime.lake.warehouse, runtime.checkpoints) == ("s3://lake/w", "s3a://lake/c")
    assert runtime.lake.store == ObjectStore(connection="lakeward_s3", connections=site.home.secrets)
    file.write_text("catalog: {connection: lakeward_s3}\n")
    alone = replace(site).runtime().lake
    assert alone.warehouse == str(site.home.warehouse), "the connection alone is for streams that read files there"
    assert alone.store == ObjectStore(connection="lakeward_s3", connections=site.home.secrets)
    file.write_text("catalog: {warehouse: /lake}\n")
    with pytest.raises(SpecError):
        replace(site).runtime()
