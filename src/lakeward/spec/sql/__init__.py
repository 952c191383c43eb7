"""Analysis of a user's SQL text: statements, quoting, lineage, and what Structured Streaming does not support."""
