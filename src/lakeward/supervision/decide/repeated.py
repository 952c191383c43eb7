"""Errors that a retry meets again, because they depend on the stream alone, and what to change. Pure."""

from __future__ import annotations

from lakeward.platform.failures import Cause

OF_THE_STREAM = frozenset({Cause.PLAN_SIZE, Cause.OUT_OF_MEMORY})
"""Causes that lie in the stream at fault, not in the other streams of its driver."""


def next_step(cause: Cause | None, stream: str) -> str | None:
    """What to change, and the commands after it; None where the cause says nothing about the stream."""
    then = f"then: lakeward deploy; lakeward streams upgrade {stream} --wait"
    match cause:
        case Cause.PLAN_SIZE:
            return (
                f"select fewer columns or levels of nesting in the transform of conf/streams/{stream}.yaml"
                f" or split it into two streams, {then}"
            )
        case Cause.OUT_OF_MEMORY:
            return (
                f"give its driver more memory (resources: {{driver_memory: 2g}} in conf/streams/{stream}.yaml; of a"
                f" shared driver: memory of its entry under drivers: in conf/lakeward.yaml), {then}"
            )
        case Cause.NO_FILE_SYSTEM:
            return (
                "correct the path that the error names (a path of the spec, a property of the table such as "
                "write.data.path, the warehouse), or set up the object store: catalog: {connection: ..} in "
                "conf/lakeward.yaml (docs/how-to/land-on-s3.md); "
                f"then: lakeward deploy; lakeward streams start {stream}"
            )
        case _:
            return None
