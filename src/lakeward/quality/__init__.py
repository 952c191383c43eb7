"""Data quality: runs Great Expectations on rows that landed since the last proof, and moves the branch `verified`.

`check` is the entry point for Airflow and the command line. It never imports Great Expectations into the caller.
"""

from lakeward.quality.runs.ask import check

__all__ = ["check"]
