"""Lakeward's plugin: links from a stream's runs to what stands behind them."""

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin

from lakeward.airflow.links import SparkUiLink


class LakewardPlugin(AirflowPlugin):
    """Loaded by every Airflow process: it registers, and does nothing else."""

    name = "lakeward"
    global_operator_extra_links: ClassVar[list[object]] = [SparkUiLink()]
