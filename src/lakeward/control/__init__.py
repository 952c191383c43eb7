"""Control: what acts on streams. It reads the registry and the backend, lets `lakeward.streams` decide, carries out.

The same functions serve the Airflow task, the command line and the demo, so streams start and stop with Airflow down.
"""
