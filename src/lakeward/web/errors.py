"""Errors of the API as JSON, and their HTTP status."""

from __future__ import annotations

from typing import TypedDict

from lakeward.platform.errors import Blocked, DependencyDown, LakewardError, Refused, SpecError, TimedOut, Unhealthy
from lakeward.telemetry.mask import mask


class NotFound(SpecError):
    """Raised when something does not exist, or the caller may not see it: both get the same answer."""


_STATUS: tuple[tuple[type[LakewardError], int], ...] = (
    (NotFound, 404), (SpecError, 422), (Refused, 409), (Blocked, 409), (DependencyDown, 503), (Unhealthy, 503),
    (TimedOut, 504),
)  # fmt: skip


class ErrorDocument(TypedDict):
    """What failed, why, and the next command."""

    code: str
    what: str
    why: str
    next: str


class ErrorBody(TypedDict):
    """The body of an answer that is not 200. The answers 401 and 403 are Airflow's own."""

    error: ErrorDocument


def status_of(error: LakewardError) -> int:
    """The HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def body_of(error: LakewardError) -> ErrorBody:
    """An error as JSON."""
    return {
        "error": {"code": error.code, "what": mask(error.what), "why": mask(error.why), "next": mask(error.next)},
    }  # fmt: skip
