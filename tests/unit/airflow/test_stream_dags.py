"""One file builds the Dags of all streams: what Airflow refuses in one must not take the others away."""

from __future__ import annotations

from lakeward.airflow.dag_summary import DagSummary, Declared
from lakeward.airflow.stream_dags import build

GLANCE = DagSummary(
    owner="ops", team=None, tags=(), sources=(("source", "kafka"),), sink="nyc.flights", sink_connector="iceberg",
    sink_mode="append", every="every 10 s", driver="nyc", stall="5 min",
)  # fmt: skip


def test_what_airflow_refuses_is_said_in_a_dag_of_that_name() -> None:
    refused = DagSummary(**{**vars(GLANCE), "tags": ("x" * 101,)})
    dag = build(Declared("flights", "conf/streams/flights.yaml", refused, ()))
    assert dag.dag_id == "stream__flights"
    assert "file has problems" in dag.tags
    assert "conf/streams/flights.yaml: Airflow refuses this stream's values: tag cannot be longer" in str(dag.doc_md)
    fine = build(Declared("flights", "conf/streams/flights.yaml", GLANCE, ()))
    assert "file has problems" not in fine.tags
