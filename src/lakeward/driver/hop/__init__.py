"""A hop: a stream whose rows leave as they come, by Spark's real-time mode or continuous processing. See ADR 35."""
