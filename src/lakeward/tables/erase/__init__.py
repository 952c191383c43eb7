"""Erasing rows from an Iceberg table: which rows, and which files are deleted or rewritten."""
