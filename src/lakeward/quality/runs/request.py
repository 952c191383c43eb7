"""The request to the checking process, and its answer lines."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from lakeward.platform import errors
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Lake, Runtime
from lakeward.quality.engine.timeouts import PATIENCE_S
from lakeward.registry.check_runs import Answer, Claim, FailedRun

Scope = Literal["increment", "window", "table"]


class Request(BaseModel):
    """One run, sent on stdin: other users can read a command line and an environment, and the URL may hold a secret.

    Attributes:
        tables: check these, due or not; None for every due table.
        scope: instead of each check's own.
        suite: a suite file for this run only; needs exactly one table.
        upto: the last snapshot to check, for one table; None for the head.
        patience_s: timeout of checks that read the same rows.
        claim: the claim on the run in the registry; results are recorded only while it holds.
        left: a Spark Connect session of an earlier claim, to be ended first.
        warm: check nothing; prepare for the next request.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    runtime: Runtime
    registry_url: str
    project: Path
    tables: tuple[str, ...] | None = None
    scope: Scope | None = None
    suite: Path | None = None
    upto: int | None = None
    patience_s: float = PATIENCE_S
    claim: Claim | None = None
    left: str | None = None
    warm: bool = False


def place(project: Path, lake: Lake) -> str:
    """Digest of what a checker serves: this project's suites on this lake."""
    return hashlib.sha256(f"{project}\n{lake.model_dump_json()}".encode()).hexdigest()[:16]


def error_line(error: LakewardError) -> Answer:
    """An expected error as an answer line."""
    return {"failed": {"kind": type(error).__name__, "what": error.what, "why": error.why, "next": error.next,
                       "code": error.code}}  # fmt: skip


def raise_line(failed: FailedRun) -> None:
    """Raise the error that `error_line` wrote, of the same type.

    Raises:
        LakewardError: always.
    """
    kind = getattr(errors, failed["kind"], LakewardError)
    if not (isinstance(kind, type) and issubclass(kind, LakewardError)):
        kind = LakewardError
    raise kind(failed["what"], why=failed["why"], next=failed["next"], code=failed["code"])
