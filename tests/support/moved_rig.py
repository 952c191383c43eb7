"""A registry that knows one stream, for operations that move its position."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from lakeward.operations.request import Approval, Plan, Request
from lakeward.operations.runner import Runner
from lakeward.registry import generations, streams
from lakeward.spec.model.stream import StreamSpec

Registry = Callable[[], AbstractContextManager[Connection]]


def deployed(registry: Registry, document: dict[str, Any], checkpoint: str) -> None:
    with registry() as connection:
        streams.accept(connection, document["id"], generation=1, driver="d")
        generations.add(
            connection, stream=document["id"], generation=1, spec=StreamSpec.model_validate(document).document(),
            digest="d", sql=None, code={}, versions={}, author="ann", checkpoint=checkpoint,
        )  # fmt: skip


def approved(operator: Runner, request: Request) -> tuple[Plan, Request]:
    plan = operator.plan(request)
    return plan, replace(request, approval=Approval("bob", plan.key))


def accepted(registry: Registry, stream: str, assignment: Any) -> Any:
    """What a driver would run now."""
    with registry() as connection:
        accepted_generation = generations.get(connection, stream, streams.get(connection, stream).generation)
    assert accepted_generation is not None
    return replace(assignment, generation=accepted_generation.generation, checkpoint=accepted_generation.checkpoint)
