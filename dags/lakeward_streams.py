"""Dags of the streams: `streams_reconcile`, `stream__<id>` for every file in conf/streams, and for a file with a
schedule `schedule__<id>`.
"""

from lakeward.airflow.dags import streams

globals().update(streams())
