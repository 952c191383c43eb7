"""The bridge: Great Expectations' verdicts, computed in one pass over the rows.

Great Expectations (GX) states what each expectation needs (a graph of metrics) and what it means (`metrics_validate`).
The bridge computes the metrics in between: all in one aggregate over the rows, with a shuffle only for metrics that
need one. The conditions are GX's own Spark columns, taken before GX runs them, so GX alone defines a failing row.
Imports Great Expectations; only for the checking process.
"""
