"""SQL that a user writes, read from its text alone: statements, quoting, lineage, what streaming cannot do."""
