"""Dags of the streams: `streams_reconcile`, and `stream__<id>` for every file in conf/streams."""

from lakeward.airflow.project import declared
from lakeward.airflow.reconcile_dag import build as build_reconcile
from lakeward.airflow.stream_dags import build as build_stream
from lakeward.runtime import Project

streams = declared(Project.locate())
streams_reconcile = build_reconcile([stream.id for stream in streams])
for stream in streams:
    dag = build_stream(stream)
    globals()[dag.dag_id] = dag
