"""docker-compose.yml says what an operator may rely on; checked on the parsed file. `make compose-test` runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from lakeward.stack import container_health, container_secrets, containers

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")
SERVICES = COMPOSE["services"]
OWN = {name for name, service in SERVICES.items() if service["image"].startswith("lakeward/")}
POD = {name for name, service in SERVICES.items() if service.get("network_mode")}


@pytest.fixture(params=sorted(SERVICES))
def service(request) -> dict[str, Any]:
    return SERVICES[request.param]


def test_every_image_is_pinned_to_a_version(service):
    tag = service["image"].rsplit(":", 1)[-1]
    assert tag[0].isdigit()
    assert tag.count(".") >= 1


def test_every_service_has_a_health_check_and_a_memory_limit(service):
    assert "healthcheck" in service
    assert "mem_limit" in service


def test_every_service_drops_privileges(service):
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "no-new-privileges:true" in service["security_opt"]


def test_no_service_runs_as_root(service):
    # apache/kafka names its user itself; ours do it in docker/Dockerfile.
    stages = re.findall(
        r"^FROM base AS (\w+)\n(.*?)(?=^FROM|\Z)", (ROOT / "docker/Dockerfile").read_text(), re.S | re.M
    )
    finals = {name: body for name, body in stages if "ENTRYPOINT" in body}
    assert set(finals) == {"airflow", "spark"}
    assert all("\nUSER 50000\n" in body for body in finals.values())
    assert "build" in service or service["image"].startswith("apache/kafka:") or service["user"].split(":")[0] != "0"


@pytest.mark.parametrize("name", sorted(OWN))
def test_our_containers_write_into_volumes_only(name):
    assert SERVICES[name]["read_only"] is True


def test_ports_are_published_on_loopback_only(service):
    assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", []))


def test_no_secret_is_in_the_environment(service):
    for key, value in service.get("environment", {}).items():
        if any(word in key.upper() for word in ("PASSWORD", "SECRET_KEY", "JWT_SECRET", "FERNET", "TOKEN")):
            assert key.endswith(("_FILE", "_CMD")), key
        assert ":" not in str(value).split("@")[0].removeprefix("postgresql+psycopg2://") or "@" not in str(value), key


def test_every_secret_used_is_declared_and_every_file_named_exists(service):
    for secret in service.get("secrets", []):
        name = secret if isinstance(secret, str) else secret["source"]
        assert name in COMPOSE["secrets"]
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        assert source in COMPOSE["volumes"] or (ROOT / source).is_dir()
    if "build" in service:
        dockerfile = (ROOT / service["build"]["dockerfile"]).read_text()
        assert f"AS {service['build']['target']}\n" in dockerfile


def test_the_command_makes_exactly_the_secrets_that_are_declared():
    assert COMPOSE["secrets"] == {name: {"file": f"./secrets/{name}"} for name in container_secrets.FILES}
    assert set(SERVICES["prepare"]["secrets"]) == set(container_secrets.FILES)
    assert "/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_connect_server_reads_no_other_secret_and_no_other_state():
    connect = SERVICES["connect"]
    assert set(connect["secrets"]) == {"connect.token", "catalog.password"}
    assert not any(volume.startswith("state:") for volume in connect["volumes"])


def test_dependencies_name_services_and_wait_for_them(service):
    for name, dependency in service.get("depends_on", {}).items():
        assert name in SERVICES
        assert dependency["condition"] in {"service_healthy", "service_completed_successfully"}


def test_the_parts_of_the_stack_are_the_services():
    run = {service["command"][-1] for service in SERVICES.values() if "run" in service.get("command", [])}
    assert run == set(containers.OWN)
    assert set(containers.HOSTS) <= set(SERVICES)
    for service in SERVICES.values():
        test = service["healthcheck"].get("test", [])
        if "lakeward.stack.container_health" in test:
            assert test[-1] in container_health.COMPONENTS
        if "healthy" in test:
            assert test[-1] in containers.OWN


def test_the_parts_share_network_and_processes_of_one_container_that_nothing_else_restarts():
    for name in POD:
        assert SERVICES[name]["network_mode"] == SERVICES[name]["pid"] == "service:control"
        assert SERVICES[name]["depends_on"]["control"] == {"condition": "service_healthy"}
    assert {"scheduler", "triggerer", "api-server", "dag-processor", "checker", "connect", "prepare"} == POD
    assert SERVICES["control"]["hostname"], "it is recorded with each driver"


def test_compose_1_29_reads_the_file():
    assert set(COMPOSE) <= {"services", "networks", "volumes", "secrets"} | {key for key in COMPOSE if key[:2] == "x-"}
    assert "start_interval" not in (ROOT / "docker-compose.yml").read_text()
