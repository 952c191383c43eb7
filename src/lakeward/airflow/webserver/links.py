"""Links on tasks (task → Details): to the Spark UI of the driver behind a stream, and to the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import BaseOperatorLink

from lakeward.airflow.names import MAINTAIN, OBSERVE, ORPHANS, QUALITY, RECONCILE, RESTORE, STREAM_PREFIX
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

log = structlog.get_logger(__name__)

_TABS = {RECONCILE: "streams", QUALITY: "quality", **dict.fromkeys((MAINTAIN, OBSERVE, ORPHANS, RESTORE), "tables")}
"""Dag -> the tab of the page that shows what it does."""


class SparkUiLink(BaseOperatorLink):
    """The Spark UI of the driver that hosts the stream; no link if no driver runs or it has no UI."""

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """The address, or an empty text, which shows no link."""
        if not ti_key.dag_id.startswith(STREAM_PREFIX):
            return ""
        try:
            return spark_ui(ti_key.dag_id.removeprefix(STREAM_PREFIX))
        except LakewardError as error:
            log.warning("no Spark UI link", error=error.what, why=error.why)
            return ""


class PageLink(BaseOperatorLink):
    """The page with the stream open; for tasks of tables and checks its tab; no link on tasks of other Dags."""

    name = "Lakehouse"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """The address, or an empty text, which shows no link."""
        from lakeward.supervision import page_links

        dag: str = ti_key.dag_id
        if dag.startswith(STREAM_PREFIX):
            return page_links.of(airflow_address(), "streams", dag.removeprefix(STREAM_PREFIX))
        tab = _TABS.get(dag)
        return "" if tab is None else page_links.of(airflow_address(), tab)


def airflow_address() -> str:
    """The address that people use for Airflow; empty if it is not configured."""
    from airflow.configuration import conf

    return str(conf.get("api", "base_url", fallback=""))


def spark_ui(stream: str) -> str:
    """The address of the Spark UI of a stream's driver, empty without one.

    Raises:
        LakewardError: the registry cannot be reached, or no stack is known here.
    """
    from lakeward.airflow.connections import home
    from lakeward.platform.runtime import Runtime
    from lakeward.registry import drivers, streams
    from lakeward.supervision.reconcile import registry_of

    with registry_of(Runtime.load(home().runtime_file))() as connection:
        row = streams.find(connection, stream)
        driver = drivers.find(connection, row.driver) if row is not None else None
    if driver is None or driver.ended:
        return ""
    return driver.spark_ui or ""
