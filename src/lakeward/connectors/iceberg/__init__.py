"""Iceberg: landing exactly once, the position in the table, quarantine, audit.

The position of a stream is a property of the table it lands in, and commits with the data by an exact compare-and-set.
A driver uses `writer.IcebergWriter`; `pyiceberg_table` and `audit` read the same facts without a JVM.
"""
