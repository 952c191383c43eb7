"""What docker-compose.yml runs in a container; a run on an engine is `make compose-test`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lakeward.jars import Java
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.stack import airflow_config, container_health, container_secrets, containers
from lakeward.stack.site import StackContext

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)


@pytest.fixture
def here(tmp_path: Path) -> StackContext:
    home, java = Home(tmp_path / "home"), Java(Path("/j/bin/java"), 17)
    return StackContext(Project(tmp_path), home, containers.PORTS, java, containers.HOSTS, containers.EVERY_ADDRESS)


def test_other_hosts_are_in_every_address_that_is_written(here: StackContext) -> None:
    here.write()
    airflow_config.write(here)
    runtime = Runtime.load(here.home.runtime_file)
    assert runtime.registry_url_file.read_text().strip() == "postgresql+psycopg2://lakeward@postgres:5432/lakeward"
    assert (runtime.lake.host, runtime.postgres["lakeward_postgres"].host) == ("postgres", "postgres")
    assert runtime.kafka == {"lakeward_kafka": "kafka:9092"}
    assert runtime.connect == "localhost:15002", "a token crosses no network"
    assert {line.split(":")[0] for line in here.home.pgpass.read_text().splitlines()} == {"postgres"}
    assert {line.split(":")[0] for line in here.catalog_pgpass.read_text().splitlines()} == {"postgres"}
    settings = airflow_config.settings(here)
    assert "@postgres:5432/airflow" in str(settings["database"]["sql_alchemy_conn"])
    assert settings["api"]["host"] == containers.EVERY_ADDRESS
    assert settings["core"]["execution_api_server_url"] == "http://127.0.0.1:8080/execution/"
    assert airflow_config.connections(here)["lakeward_registry"]["host"] == "postgres"


def test_the_container_of_the_connect_server_has_the_catalogs_login_alone(here: StackContext) -> None:
    here.write_catalog_login()
    assert sorted(file.name for file in here.home.secrets.iterdir()) == ["catalog.password", "catalog.pgpass"]


def test_a_missing_secret_is_said_before_anything_is_written(
    here: StackContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container_secrets.make(tmp_path)
    (tmp_path / "secrets/airflow.jwt.key").unlink()
    monkeypatch.setattr(container_secrets, "MOUNTED", tmp_path / "secrets")
    monkeypatch.setattr(containers, "DATABASE_WAIT_S", 0.0)
    with pytest.raises(SpecError, match=r"has no airflow\.jwt\.key") as error:
        containers.prepare(here)
    assert "lakeward init --compose" in str(error.value.next)
    assert not here.home.runtime_file.exists()


def test_the_administrators_password_does_not_stay_where_airflow_reads(
    here: StackContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container_secrets.make(tmp_path)
    monkeypatch.setattr(container_secrets, "MOUNTED", tmp_path / "secrets")
    monkeypatch.setattr(containers, "DATABASE_WAIT_S", 0.0)
    nobody = replace(here, hosts={"postgres": "127.0.0.1"}, ports={**containers.PORTS, "postgres": 1})
    with pytest.raises(Exception, match="does not answer"):
        containers.prepare(nobody)
    assert (here.home.secrets / "lakeward.password").exists()
    assert not (here.home.secrets / "postgres.password").exists()


@pytest.mark.parametrize("arguments", [[], ["run"], ["run", "postgres"], ["stop", "connect"]])
def test_a_wrong_step_is_said_with_those_that_there_are(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert containers.main(arguments) == SpecError.exit_code
    said = capsys.readouterr().err
    assert "airflow-scheduler" in said
    assert "LW-2546" in said


def test_health_is_what_airflow_says_of_the_component_and_a_recent_heartbeat() -> None:
    def scheduler(**facts: str) -> str | None:
        return container_health.judge("scheduler", facts, NOW)

    beat = "latest_scheduler_heartbeat"
    assert scheduler(status="healthy", **{beat: (NOW - timedelta(seconds=30)).isoformat()}) is None
    assert "newest heartbeat" in str(scheduler(status="healthy", **{beat: (NOW - timedelta(minutes=3)).isoformat()}))
    assert "newest heartbeat" in str(scheduler(status="healthy"))
    assert "is unhealthy" in str(scheduler(status="unhealthy", **{beat: NOW.isoformat()}))
    assert container_health.judge("metadatabase", {"status": "healthy"}, NOW) is None
    assert container_health.judge("metadatabase", {}, NOW) is not None


def test_health_of_an_api_that_is_away_or_answers_something_else() -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *words: object) -> None: ...

    status = 200
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        assert "does not answer" in str(container_health.problem("metadatabase", server.server_port))
        status = 503
        assert "answered 503" in str(container_health.problem("metadatabase", server.server_port))
        server.shutdown()
    assert "does not answer" in str(container_health.problem("metadatabase", 1))
    assert container_health.main(["kafka"]) == 2
