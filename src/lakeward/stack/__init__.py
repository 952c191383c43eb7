"""PostgreSQL, Kafka, Airflow and a Spark Connect server on one machine, under a supervisor that restarts what dies."""

from __future__ import annotations
