"""The plugin: mounts the page's API and registers the page with Airflow's UI. Found by its entry point.

Every process of Airflow loads plugins. Only the API server builds the application: the others import this module alone.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from fastapi import FastAPI

    from lakeward.platform.runtime import Runtime

PREFIX = "/lakeward"


def serves() -> bool:
    """Whether this process is Airflow's API server."""
    return any(word in sys.argv for word in ("api-server", "standalone"))


def application() -> FastAPI:
    """The application, guarded by Airflow's own permissions."""
    from lakeward.airflow.page_access import gate
    from lakeward.airflow.project import settings
    from lakeward.web.app import build
    from lakeward.web.reads import Reads

    return build(Reads(_addresses, settings), gate())


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

    if not (STATIC / "main.umd.cjs").is_file():
        return []
    icons = {"icon": f"{PREFIX}/static/icon.svg", "icon_dark_mode": f"{PREFIX}/static/icon-dark.svg"}
    return [
        {"name": "Lakehouse", "bundle_url": bundle("main.umd.cjs"), "destination": "nav", "url_route": "lakeward",
         "nav_top_level": True, **icons},
        {"name": "Stream", "bundle_url": bundle("dag.umd.cjs"), "destination": "dag", "url_route": "lakeward_stream"},
        {"name": "Lakehouse", "bundle_url": bundle("home.umd.cjs"), "destination": "dashboard"},
    ]  # fmt: skip


class LakewardPlugin(AirflowPlugin):
    """Registers the page in the API server, and nothing elsewhere."""

    name = "lakeward"
    fastapi_apps: list[Any] = [{"app": application(), "url_prefix": PREFIX, "name": "Lakeward"}] if serves() else []
    react_apps: list[Any] = pages() if serves() else []
