"""Checks Great Expectations does not have; their grammar is `lakeward.spec.own_checks`."""

from lakeward.quality.own.check import Look, check, is_own

__all__ = ["Look", "check", "is_own"]
