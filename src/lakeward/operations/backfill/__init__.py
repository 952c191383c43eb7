"""backfill: land a bounded range of a source exactly once, beside the running stream."""
