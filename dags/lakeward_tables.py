"""Dags of the tables: `tables_observe`, `tables_maintain`, `tables_orphans`, `tables_restore`."""

from airflow.sdk import get_parsing_context

from lakeward.airflow.maintain_dag import build_maintain
from lakeward.airflow.names import MAINTAIN, OBSERVE, ORPHANS, RESTORE
from lakeward.airflow.observe_dag import build_observe
from lakeward.airflow.orphan_dag import build_orphans
from lakeward.airflow.restore_dag import build_restore
from lakeward.platform.runtime import Project

only = get_parsing_context().dag_id  # a task parses this file anew: it needs its own Dag alone, and no schedule

looks = sweeps = None
if only is None:
    from lakeward.airflow.project import table_intervals

    looks, sweeps = table_intervals(Project.locate())

if only in (None, OBSERVE):
    tables_observe = build_observe(looks)

if only in (None, MAINTAIN):
    tables_maintain = build_maintain()

if only in (None, ORPHANS):
    tables_orphans = build_orphans(sweeps)

if only in (None, RESTORE):
    tables_restore = build_restore()
