"""Iceberg: landing exactly once, the position in the table, quarantine, audit.

The position of a stream is a property of the table it lands in and commits with its data by an exact compare-and-set;
`writer.ExactWriter` is the one door for a driver, `pytable` and `audit` read the same facts without a JVM.
"""
