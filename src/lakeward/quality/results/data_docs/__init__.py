"""Data Docs: Great Expectations' own pages of what check runs found, made on demand from the registry's results."""

from lakeward.quality.results.data_docs.site import Run, build, outdated, remove

__all__ = ["Run", "build", "outdated", "remove"]
