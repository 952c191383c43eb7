"""Dag of the checks: `quality_check`."""

from lakeward.airflow.quality_dags import build

quality_check = build()
