"""What Airflow's UI offers because Lakeward is installed: a provider, and the forms of the connections streams name."""

from __future__ import annotations

import json

import httpx
import pytest
from airflow_service import AirflowService

from lakeward.airflow import provider

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow


def test_airflow_lists_lakeward_as_a_provider(airflow: AirflowService) -> None:
    found = airflow.call("GET", "/providers").json()["providers"]
    assert "lakeward" in {item["package_name"] for item in found}


def test_the_connection_form_has_the_types_that_streams_name(airflow: AirflowService) -> None:
    answer = httpx.get(
        f"{airflow.url}/ui/connections/hook_meta",
        headers={"Authorization": f"Bearer {airflow.token_of('admin')}"},
        timeout=120,
        trust_env=False,
    )
    forms = {form["connection_type"]: form for form in answer.json()}
    assert {"kafka", "postgres", "aws", "iceberg", "http", "kubernetes", "spark", "spark_connect"} <= forms.keys()
    fields = forms["kafka"]["standard_fields"]
    assert (fields["url_schema"]["hidden"], fields["host"]["title"]) == (True, "Bootstrap server")
    assert forms["aws"]["standard_fields"]["login"]["title"] == "Access key"
    fields = forms["iceberg"]["standard_fields"]
    assert fields["url_schema"]["hidden"]
    assert fields["port"]["hidden"]
    assert fields["login"]["title"] == "Client id"


def test_airflow_shows_no_secret_of_a_login_of_a_rest_catalog(airflow: AirflowService) -> None:
    # Each has its own value: Airflow hides a value everywhere once it is known as a secret.
    secrets = {name: f"s3cret of {name}" for name in ("credential", "token", "rest.auth.basic.password")}
    extra = json.dumps(secrets | {"scope": "PRINCIPAL_ROLE:ALL"})
    given = {"connection_id": "polaris", "conn_type": "iceberg", "login": "id", "password": "s3cret of it"}
    airflow.call("POST", "/connections", json=given | {"extra": extra})
    shown = airflow.call("GET", "/connections/polaris").text
    assert "s3cret" not in shown
    assert "PRINCIPAL_ROLE:ALL" in shown


def test_a_type_whose_own_provider_is_installed_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def types() -> set[str]:
        return {item["connection-type"] for item in provider.get_provider_info()["connection-types"]}

    assert types() == {"kafka", "postgres", "aws", "iceberg", "http", "kubernetes"}
    monkeypatch.setattr(provider, "_installed", lambda package: package == "airflow.providers.amazon")
    assert types() == {"kafka", "postgres", "iceberg", "http", "kubernetes"}


def test_an_installed_provider_is_found() -> None:
    assert provider._installed("airflow.providers.standard")
    assert not provider._installed("airflow.providers.nobody.has.this")
