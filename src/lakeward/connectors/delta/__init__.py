"""Delta: landing exactly once, the position as domain metadata in the commit of the rows, audit.

A driver lands through `writer.DeltaWriter`. `log` reads the same facts from the Delta log without a JVM.
"""
