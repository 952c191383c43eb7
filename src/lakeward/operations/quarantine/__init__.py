"""quarantine: move landed rows that fail a check from their table into the quarantine table."""
