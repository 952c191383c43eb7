"""Dags of the tables: `tables_observe`, `tables_maintain`."""

from airflow.sdk import get_parsing_context

from lakeward.airflow.names import MAINTAIN, OBSERVE
from lakeward.airflow.table_dags import build_maintain, build_observe

only = get_parsing_context().dag_id  # a task parses this file anew and needs its own Dag alone

if only in (None, OBSERVE):
    from lakeward.airflow.project import observe_every
    from lakeward.runtime import Project

    tables_observe = build_observe(observe_every(Project.locate()))

if only in (None, MAINTAIN):
    tables_maintain = build_maintain()
