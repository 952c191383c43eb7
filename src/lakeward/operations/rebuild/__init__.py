"""rebuild: fill a new table from the source beside the running stream, then swap it for the live table."""
