"""Airflow's configuration: loopback only, secrets in 0600 files and the same at every start."""

from __future__ import annotations

import configparser
import json
from pathlib import Path

import pytest

from lakeward.jars import Java
from lakeward.platform.runtime import Home, Project
from lakeward.stack import airflow_config
from lakeward.stack.site import StackContext
from lakeward.stack.state import DEFAULT_PORTS


@pytest.fixture
def site(tmp_path: Path) -> StackContext:
    # A percent sign and a space: both have broken configuration files.
    root = tmp_path / "50% of it"
    return StackContext(Project(root), Home(root / ".lakeward"), dict(DEFAULT_PORTS), Java(Path("/j/bin/java"), 17))


def read(site: StackContext) -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(site.airflow_home / "airflow.cfg")
    return parser


def test_the_written_file_reads_back(site: StackContext) -> None:
    airflow_config.write(site)
    config = read(site)
    assert config["core"]["dags_folder"] == str(site.project.dags)
    assert config["core"]["executor"] == "LocalExecutor"
    assert config["api"]["host"] == "127.0.0.1"
    assert config["database"]["sql_alchemy_conn"] == "postgresql+psycopg2://lakeward@127.0.0.1:15432/airflow"
    kwargs = json.loads(config["secrets"]["backend_kwargs"])
    assert Path(kwargs["connections_file_path"]).exists()


def test_keys_and_passwords_are_made_once_and_private(site: StackContext) -> None:
    airflow_config.write(site)
    before = (site.airflow_home / "airflow.cfg").read_text()
    airflow_config.write(site)
    assert (site.airflow_home / "airflow.cfg").read_text() == before
    passwords = json.loads(airflow_config.passwords_file_of(site).read_text())
    assert set(passwords) == {"admin", "op", "user", "viewer"}
    assert len(set(passwords.values())) == 4
    for file in [site.airflow_home / "airflow.cfg", *site.home.secrets.iterdir()]:
        assert file.stat().st_mode & 0o077 == 0, file


def test_the_connections_are_those_the_dags_name(site: StackContext) -> None:
    found = airflow_config.connections(site)
    assert {name: facts["conn_type"] for name, facts in found.items()} == {
        "lakeward_registry": "postgres",
        "lakeward_kafka": "kafka",
        "lakeward_connect": "spark_connect",
    }
    assert found["lakeward_connect"]["host"] == "sc://localhost", "with a token 127.0.0.1 hangs"
    assert found["lakeward_connect"]["password"] == site.secret("connect.token")


def test_airflow_hides_the_credential_of_a_rest_catalog(site: StackContext) -> None:
    assert airflow_config.settings(site)["core"]["sensitive_var_conn_names"] == "credential"


def test_a_project_with_plugins_brings_its_own(site: StackContext) -> None:
    assert "plugins" in str(airflow_config.settings(site)["core"]["plugins_folder"])
    (site.project.root / "plugins").mkdir(parents=True)
    assert airflow_config.settings(site)["core"]["plugins_folder"] == site.project.root / "plugins"
