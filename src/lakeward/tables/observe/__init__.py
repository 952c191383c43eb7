"""Observes facts about tables: from Iceberg metadata with PyIceberg, and from Delta logs."""
