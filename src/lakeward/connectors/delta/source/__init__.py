"""A Delta table as a source of a stream: all rows of the table when the stream starts, then appended rows."""
