"""docker-compose.yml says what an operator may rely on; checked on the parsed file, since no engine runs in CI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")
SERVICES = COMPOSE["services"]


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
    assert "no-new-privileges:true" in service["security_opt"]


def test_ports_are_published_on_loopback_only(service):
    assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", []))


def test_no_secret_stands_in_the_environment(service):
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
        assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_dependencies_name_services_and_wait_for_them(service):
    for name, dependency in service.get("depends_on", {}).items():
        assert name in SERVICES
        assert dependency["condition"] in {"service_healthy", "service_completed_successfully"}
