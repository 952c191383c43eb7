"""restore: roll a table back to an earlier snapshot, together with positions and `verified`."""
