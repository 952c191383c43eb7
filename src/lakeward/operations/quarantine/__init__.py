"""quarantine: landed rows that fail a check, moved from their table into the quarantine table."""
