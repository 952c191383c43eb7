"""Demo: a year of New York flights through the whole stack, and a proof that no record is missing or duplicated."""
