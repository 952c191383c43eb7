"""Embedded stack: PostgreSQL, Kafka, Airflow and Spark Connect on one machine, with restarts by supervisord."""

from __future__ import annotations
