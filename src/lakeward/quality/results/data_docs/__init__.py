"""Data Docs: Great Expectations' pages of check runs, built on demand from the results in the registry."""

from lakeward.quality.results.data_docs.site import Run, build, outdated, remove

__all__ = ["Run", "build", "outdated", "remove"]
