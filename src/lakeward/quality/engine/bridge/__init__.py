"""The bridge: Great Expectations' verdicts at the price of one pass.

Great Expectations (GX) says what each expectation needs (a graph of metrics) and what it means (`metrics_validate`);
we compute the numbers in between: all of them in one aggregate over the rows, a shuffle only for what needs one. The
conditions are GX's own Spark columns, taken before GX runs them, so what a failing row is stands in one place: there.

Imports Great Expectations; only for the checking process.
"""
