"""PostgreSQL as a sink: rows and position of a batch are committed by one statement."""
