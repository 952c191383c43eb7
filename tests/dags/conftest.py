"""A real Airflow, once a run, on the PostgreSQL of the run."""

from __future__ import annotations

from collections.abc import Iterator

import airflow_service
import pytest
from airflow_service import AirflowService

from lakeward.registry.engine import migrate


@pytest.fixture(scope="session")
def airflow(postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowService]:
    """Four real components with Lakeward's Dags for the streams `flights` and `alerts` on one small driver."""
    root = tmp_path_factory.mktemp("airflow")
    for name in ("airflow", "catalog"):
        postgres.create_database(name)
    with airflow_service.project(root / "project", "flights", "alerts", driver="small") as project:
        site = airflow_service.site(root / "home", project, postgres=postgres.port, password=postgres.password)
        service = AirflowService(site)
        migrate(service.home.registry_url_file.read_text().strip(), service.home.pgpass)
        airflow_service.migrate(service)
        service.start()
        try:
            yield service
        finally:
            service.stop()
            service.end_drivers()
