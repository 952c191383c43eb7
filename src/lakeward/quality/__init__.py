"""Quality: Great Expectations on the rows that landed since the last proof, and the branch readers may trust.

`check` is the door for Airflow and the command line; it never imports Great Expectations into the caller.
"""

from lakeward.quality.runs.ask import check

__all__ = ["check"]
