"""Dags of the tables: `tables_observe`, `tables_maintain`, `tables_orphans`, `tables_restore`."""

from lakeward.airflow.dags import tables

globals().update(tables())
