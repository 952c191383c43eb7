"""Checks Great Expectations does not have; their grammar is `lakeward.spec.model.custom_expectations`."""

from lakeward.quality.engine.custom.check import Look, check, is_own

__all__ = ["Look", "check", "is_own"]
