"""The plugin: the page and its API in Airflow's UI, and the links on tasks. Airflow finds it by its entry point.

Every process of Airflow loads plugins. Only the API server builds the application: the others import this module alone.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from lakeward.airflow.webserver.links import PageLink, SparkUiLink

if TYPE_CHECKING:
    from fastapi import FastAPI

    from lakeward.platform.runtime import Runtime

PREFIX = "/lakeward"


def serves() -> bool:
    """Whether this process is Airflow's API server."""
    return "api-server" in sys.argv


def applications() -> list[dict[str, Any]]:
    """The API, guarded by Airflow's own permissions."""
    from lakeward.airflow.project import settings
    from lakeward.airflow.webserver.access import gate
    from lakeward.airflow.webserver.supervising import explain
    from lakeward.web.app import build
    from lakeward.web.reads import Reads

    app: FastAPI = build(Reads(_addresses, settings, explain), gate())
    return [{"app": app, "url_prefix": PREFIX, "name": "Lakeward"}]


def _addresses() -> Runtime:
    from lakeward.airflow.connections import home
    from lakeward.platform.runtime import Runtime, databases

    # The files of the connections that streams name were written by the tasks that launched them.
    addresses = Runtime.load(home().runtime_file)
    return addresses.model_copy(update={"postgres": {**addresses.postgres, **databases(home().secrets)}})


def pages() -> list[dict[str, Any]]:
    """The page in the navigation, the tab on each stream's Dag, the block on the home page."""
    from lakeward.web import STATIC

    def bundle(file: str) -> str:
        version = sha256((STATIC / file).read_bytes()).hexdigest()[:12]  # a browser must not keep an older one
        return f"{PREFIX}/static/{file}?v={version}"

    icons = {"icon": f"{PREFIX}/static/icon.svg", "icon_dark_mode": f"{PREFIX}/static/icon-dark.svg"}
    # Airflow keeps a loaded bundle by its name: each place needs a name of its own.
    return [
        {"name": "Lakehouse", "bundle_url": bundle("main.umd.cjs"), "destination": "nav", "url_route": "lakeward",
         "nav_top_level": True, **icons},
        {"name": "Stream", "bundle_url": bundle("dag.umd.cjs"), "destination": "dag", "url_route": "lakeward_stream"},
        {"name": "Lakehouse on Home", "bundle_url": bundle("home.umd.cjs"), "destination": "dashboard"},
    ]  # fmt: skip


class LakewardPlugin(AirflowPlugin):
    """Registers the links everywhere, and the page in the API server."""

    name = "lakehouse"  # projects made before have a file plugins/lakeward_plugin.py, which is named lakeward
    global_operator_extra_links: list[Any] = [SparkUiLink(), PageLink()]  # noqa: RUF012  # Airflow's class has it so
    fastapi_apps: list[Any] = applications() if serves() else []
    react_apps: list[Any] = pages() if serves() else []
