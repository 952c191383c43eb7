"""Reference tables: the static side of a stream's joins, read again at an interval."""
