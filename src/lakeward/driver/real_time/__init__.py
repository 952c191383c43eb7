"""Streams whose rows leave as they come: Spark's real-time mode and continuous processing (ADR 35)."""
