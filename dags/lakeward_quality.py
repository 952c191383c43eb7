"""Dag of the checks: `quality_check`."""

from lakeward.airflow.dags import quality

globals().update(quality())
