"""The resident checker: one supervised process that serves check runs of the registry, with Great Expectations warm.

It is two processes. This small one claims runs, gives signs of life and holds time limits; the checking process below
it (`python -m lakeward.quality`) does the work, can be ended at any time, and ends when this one does.
"""
