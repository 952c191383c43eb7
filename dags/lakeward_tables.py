"""Dags of the tables: `tables_observe`, `tables_maintain`."""

from airflow.sdk import get_parsing_context

from lakeward.airflow.names import MAINTAIN, OBSERVE
from lakeward.airflow.table_dags import build_maintain, build_observe
from lakeward.runtime import Project

only = get_parsing_context().dag_id  # a task parses this file anew: it needs its own Dag alone, and no schedule

if only in (None, OBSERVE):
    every = None
    if only is None:
        from lakeward.airflow.project import observe_every

        every = observe_every(Project.locate())
    tables_observe = build_observe(every)

if only in (None, MAINTAIN):
    tables_maintain = build_maintain()
