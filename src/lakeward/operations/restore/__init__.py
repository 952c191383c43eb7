"""restore: a table taken back to an earlier snapshot, together with positions and `verified`."""
