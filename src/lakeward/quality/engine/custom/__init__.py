"""Lakeward's own expectations, which Great Expectations lacks. Grammar: `lakeward.spec.model.custom_expectations`."""

from lakeward.quality.engine.custom.base import CheckContext
from lakeward.quality.engine.custom.check import check, is_own

__all__ = ["CheckContext", "check", "is_own"]
