"""Dags of the streams: `streams_reconcile`, and `stream__<id>` for every file in conf/streams."""

from airflow.sdk import get_parsing_context

from lakeward.airflow.names import RECONCILE, STREAM_PREFIX

# A task parses this file anew: it builds its own Dag and no other, so that a pass over all streams stays cheap.
only = get_parsing_context().dag_id

if only in (None, RECONCILE):
    from lakeward.airflow.reconcile_dag import build as build_reconcile

    streams_reconcile = build_reconcile()

if only is None or only.startswith(STREAM_PREFIX):
    from lakeward.airflow.project import declared
    from lakeward.airflow.stream_dags import build as build_stream
    from lakeward.runtime import Project

    for stream in declared(Project.locate()):
        dag = build_stream(stream)
        globals()[dag.dag_id] = dag
