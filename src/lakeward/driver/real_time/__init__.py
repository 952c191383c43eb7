"""Real-time queries: Spark's real-time mode and continuous processing, without micro-batches (ADR 35)."""
