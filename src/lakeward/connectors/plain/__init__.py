"""Connectors that keep no position: rate, socket, console, and data sources passed on to Spark by name."""
