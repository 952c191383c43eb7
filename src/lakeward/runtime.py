"""The import path that Dag loader files use which `lakeward init` wrote before version 0.2."""

from lakeward.platform.runtime import Project

__all__ = ["Project"]
