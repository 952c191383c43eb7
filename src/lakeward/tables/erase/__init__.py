"""Rows that are erased for good: which they are, and the files that must go or be written again."""
