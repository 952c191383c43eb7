"""What the checking process is asked, and the lines it answers with."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lakeward.platform import errors
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Lake, Runtime
from lakeward.quality.engine.timeouts import PATIENCE_S
from lakeward.registry.check_runs import Claim

Scope = Literal["increment", "window", "table"]


class Request(BaseModel):
    """One run, told on stdin: a command line and an environment can be read by others, and the URL may hold a secret.

    Attributes:
        tables: these, due or not; None for every due table.
        scope: instead of each check's own.
        suite: a suite file for this run only; needs exactly one table.
        upto: the snapshot the check ends with, of one table; None for the head.
        patience_s: how long checks that read the same rows may take together.
        claim: on the run in the registry; what is found is kept only while it holds.
        left: a session of Spark Connect that an earlier claim left behind: it is ended first.
        warm: check nothing, have everything ready for the next request.
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
    """What a checker serves, as a digest: this project's suites on this lake."""
    return hashlib.sha256(f"{project}\n{lake.model_dump_json()}".encode()).hexdigest()[:16]


def error_line(error: LakewardError) -> dict[str, Any]:
    """A foreseen error as a line."""
    return {"failed": {"kind": type(error).__name__, "what": error.what, "why": error.why, "next": error.next,
                       "code": error.code}}  # fmt: skip


def raise_line(failed: dict[str, str]) -> None:
    """Raise what `error_line` wrote, as the same kind of error.

    Raises:
        LakewardError: always.
    """
    kind = getattr(errors, failed["kind"], LakewardError)
    if not (isinstance(kind, type) and issubclass(kind, LakewardError)):
        kind = LakewardError
    raise kind(failed["what"], why=failed["why"], next=failed["next"], code=failed["code"])
