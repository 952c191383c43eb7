"""Reference tables: the static side of a stream's joins, reloaded at an interval."""
