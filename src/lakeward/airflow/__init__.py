"""Airflow's side: Dag factories, the watcher, connections. Every task is a finite step over `lakeward.supervision`."""
