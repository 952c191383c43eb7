"""backfill: a bounded range of a source, landed once beside the running stream."""
