"""PostgreSQL as a sink: a stream's rows and its position in one statement of one transaction."""
