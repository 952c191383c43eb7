"""Links on the tasks of a stream's Dag (task → Details): from a run to the Spark UI of the driver behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import BaseOperatorLink

from lakeward.airflow.names import STREAM_PREFIX
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

log = structlog.get_logger(__name__)


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
