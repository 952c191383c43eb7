"""The checker: one supervised process that works on check runs of the registry, with Great Expectations warm.

It consists of two processes. This small one claims runs, sends heartbeats and enforces timeouts. The checking process
(`python -m lakeward.quality`) is its child: it does the work, can be ended at any time, and ends when this one does.
"""
