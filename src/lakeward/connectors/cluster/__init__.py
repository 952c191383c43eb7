"""Connections to clusters: where the driver of a stream runs, as an Airflow connection says it."""
