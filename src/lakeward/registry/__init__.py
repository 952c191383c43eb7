"""The registry: PostgreSQL, one small module per noun, every function on a caller's `Connection` (one transaction)."""
