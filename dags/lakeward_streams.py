"""Dags of the streams: `streams_reconcile`, `stream__<id>` for every file in conf/streams, and for a file with a
schedule `schedule__<id>`.
"""

from airflow.sdk import get_parsing_context

from lakeward.airflow.names import RECONCILE, SCHEDULE_PREFIX, STREAM_PREFIX

# A task parses this file anew. It builds its own Dag and no other, and for that it reads no stream file.
only = get_parsing_context().dag_id

if only in (None, RECONCILE):
    from lakeward.airflow.reconcile_dag import build as build_reconcile

    streams_reconcile = build_reconcile()

if only is None or only.startswith(STREAM_PREFIX):
    from lakeward.airflow.project import declared, named
    from lakeward.airflow.stream_dags import build as build_stream
    from lakeward.platform.runtime import Project

    streams = declared(Project.locate()) if only is None else [named(only.removeprefix(STREAM_PREFIX))]
    for stream in streams:
        dag = build_stream(stream)
        globals()[dag.dag_id] = dag

if only is None or only.startswith(SCHEDULE_PREFIX):
    from lakeward.airflow.project import named, scheduled
    from lakeward.airflow.schedule_dags import build as build_schedule

    of_schedule = scheduled(streams) if only is None else [named(only.removeprefix(SCHEDULE_PREFIX))]
    for stream in of_schedule:
        dag = build_schedule(stream)
        globals()[dag.dag_id] = dag
