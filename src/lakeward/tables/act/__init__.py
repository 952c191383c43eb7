"""Maintenance actions on Spark Connect. A procedure's return value is recorded; `verify` judges from metadata only."""
