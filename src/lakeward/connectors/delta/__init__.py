"""Delta: landing exactly once, the position as domain metadata in the commit of the rows, audit.

`writer.DeltaWriter` is the door for a driver, `log` reads the same facts from the table's own log without a JVM.
"""
