"""A Delta table as a source of a stream: the table as it stands, then what is appended to it."""
