"""A stream's life, decided: health, failure classes, restart policy, reconcile.

Pure: no Spark, no Airflow, no clock, no chance of its own.
"""
