"""The page's API and its bundles on a real Airflow: who may ask what, and what the UI is told to load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import airflow_service
import httpx
import pytest
from airflow_service import AirflowService
from fastapi.routing import APIRoute

from lakeward.registry import streams
from lakeward.web.app import routes

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow
STREAM = "shown"
ROUTES = [
    (next(iter(route.methods)), route.path.format(stream=STREAM, table="nyc.shown", dag_id=f"stream__{STREAM}"))
    for route in routes.routes
    if isinstance(route, APIRoute)
]


@pytest.fixture(scope="module")
def deployed(airflow: AirflowService) -> Iterator[AirflowService]:
    with airflow.registry() as connection:
        airflow_service.deploy(connection, STREAM, desired="stopped")
    yield airflow
    with airflow.registry() as connection:
        streams.remove(connection, STREAM)


@pytest.fixture(scope="module")
def tokens(deployed: AirflowService) -> dict[str, str]:
    return {user: deployed.token_of(user) for user in ("viewer", "user", "op", "admin")}


def ask(service: AirflowService, method: str, path: str, token: str | None = None) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    options: dict[str, Any] = {"json": {"op": "start"}} if method == "POST" else {}
    answer = service.http.request(method, f"{service.url}/lakeward{path}", headers=headers, **options)
    service.http.cookies.clear()  # each call says by its header who calls
    return answer


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_route_answers_those_whom_airflow_permits(deployed, tokens, method: str, path: str) -> None:
    assert ask(deployed, method, path).status_code == 401
    assert ask(deployed, method, path, "no token").status_code in (401, 403)
    may = {user: ask(deployed, method, path, token).status_code not in (401, 403) for user, token in tokens.items()}
    assert may == {"viewer": method == "GET", "user": True, "op": True, "admin": True}


def test_the_page_shows_a_stream_with_its_plan(deployed, tokens) -> None:
    listed = ask(deployed, "GET", "/api/v1/streams", tokens["viewer"]).json()
    assert STREAM in {row["id"] for row in listed["streams"]}
    detail = ask(deployed, "GET", f"/api/v1/streams/{STREAM}", tokens["viewer"]).json()
    assert detail["block"][0].startswith(f"{STREAM} is STOPPED")
    plan = ask(deployed, "POST", f"/api/v1/dags/stream__{STREAM}/plan", tokens["user"]).json()
    assert plan["text"] and not plan["approval"]


def test_the_cause_of_missing_supervision_is_what_airflow_knows() -> None:
    from lakeward.airflow.webserver.supervising import cause

    found = [cause(known=False), cause(paused=True), cause(broken=True)]
    assert [item[0].split()[0:3] for item in found if item] == [
        ["Airflow", "has", "no"], ["the", "Dag", "streams_reconcile"], ["Airflow", "cannot", "read"],
    ]  # fmt: skip
    assert cause() is None


def test_the_ui_knows_where_the_page_is_and_can_load_it(deployed) -> None:
    assert deployed.call("GET", "/plugins/importErrors").json()["import_errors"] == []
    plugins = deployed.call("GET", "/plugins").json()["plugins"]
    (ours,) = (plugin for plugin in plugins if plugin["name"] == "lakehouse")
    places = {app["destination"]: app["bundle_url"] for app in ours["react_apps"]}
    assert places.keys() == {"nav", "dag", "dashboard"}
    names = [app["name"] for app in ours["react_apps"]]
    assert len(set(names)) == len(names), "Airflow would show one bundle in place of another"
    for address in places.values():
        bundle = deployed.http.get(f"{deployed.url}{address}")
        assert (bundle.status_code, bundle.headers["content-type"].split(";")[0]) == (200, "application/javascript")
        assert "AirflowPlugin" in bundle.text
    for path in ("/docs", "/openapi.json", "/redoc"):
        assert "streams/{stream}" not in ask(deployed, "GET", path).text


def test_the_page_names_dags_as_airflow_does() -> None:
    from lakeward.airflow import names
    from lakeward.web import reads
    from lakeward.web import streams as rows

    assert (rows.DAG, reads.OF_ALL) == (names.STREAM_PREFIX, names.OBSERVE)


def test_other_processes_of_airflow_build_no_application(monkeypatch: pytest.MonkeyPatch) -> None:
    from lakeward.airflow.webserver.plugin import LakewardPlugin, serves

    monkeypatch.setattr("sys.argv", ["airflow", "scheduler"])
    assert not serves()
    assert (LakewardPlugin.fastapi_apps, LakewardPlugin.react_apps) == ([], [])
