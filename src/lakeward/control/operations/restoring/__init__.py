"""A table taken back to an earlier snapshot, together with the positions that stand on it and `verified`."""
