"""erase: rows that somebody has a duty to delete, gone from every file."""
