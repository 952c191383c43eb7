"""Airflow's connections of any kind, for sinks in Python."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from airflow_given import Given

from lakeward.airflow.connection_files import ADAPTERS
from lakeward.connectors.python import connections
from lakeward.platform import private
from lakeward.platform.runtime import Home, Lake, Runtime
from lakeward.registry.deploy import deploy
from lakeward.registry.engine import connect
from lakeward.spec.model.stream import StreamSpec

PYTHON = ADAPTERS["python"]


def test_those_that_sinks_name_are_brought_to_the_driver(tmp_path: Path, postgres: Any) -> None:
    url = postgres.url(postgres.create_registry())
    runtime = Runtime(
        registry_url_file=private.write(tmp_path / "url", url), pgpass=postgres.pgpass, lake=Lake(warehouse="/w"),
        checkpoints="/c", drivers=tmp_path, jars=tmp_path, connections=tmp_path / "secrets",
    )  # fmt: skip
    document = {
        "id": "s", "owner": "x", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 5}},
        "sink": {"python": "json:dumps", "connection": "hook"},
    }  # fmt: skip
    with connect(url, postgres.pgpass) as registry:
        deploy(registry, {"s": StreamSpec.model_validate(document)}, author="me")
    assert PYTHON.named(runtime) == {"hook"}
    given = Given("h", 443, "ward", "hush", "https", {"path": "/alerts"})
    PYTHON.keep(runtime, Home(tmp_path), PYTHON.named(runtime), {"hook": given}.get)
    found = connections.find("hook", runtime)
    assert (found.host, found.port, found.login, found.password, found.schema_, found.extra) == (
        "h", 443, "ward", "hush", "https", {"path": "/alerts"},
    )  # fmt: skip
    [file] = (tmp_path / "secrets").rglob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    private.update(tmp_path / "secrets/python/own.json", "{}")
    runtime.registry_url_file.write_text(url.replace(str(postgres.port), "1"))
    assert PYTHON.named(runtime) == {"hook", "own"}, "those that are known, while the registry is away"
