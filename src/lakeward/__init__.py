"""Airflow as the control room of a streaming lakehouse."""

__version__ = "0.2.0"
