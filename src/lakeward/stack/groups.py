"""Parts of the stack, and the groups of them that `--only` accepts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lakeward.platform.errors import SpecError
from lakeward.stack.airflow_parts import ApiServer, DagProcessor, Scheduler, Triggerer
from lakeward.stack.part import Part
from lakeward.stack.services import CheckerPart, ConnectPart, KafkaPart, PostgresPart
from lakeward.stack.site import StackContext

PARTS: tuple[type[Part], ...] = (
    PostgresPart,
    KafkaPart,
    ConnectPart,
    ApiServer,
    Scheduler,
    DagProcessor,
    Triggerer,
    CheckerPart,
)
GROUPS = tuple(dict.fromkeys(part.group for part in PARTS))
NEEDS = {"airflow": {"postgres"}, "connect": {"postgres"}, "checker": {"connect", "postgres"}}


def resolve(requested: Iterable[str] | None) -> set[str]:
    """The groups to run: the requested ones and their dependencies; all of them for None.

    Raises:
        SpecError: a name is not a group, or there is no name.
    """
    chosen = set(GROUPS if requested is None else requested)
    known = f"the parts are {', '.join(GROUPS)}"
    if not chosen:
        raise SpecError(
            "Option --only is empty", why=known, next="lakeward stack up   starts all of them", code="LW-7005"
        )
    unknown = sorted(chosen - set(GROUPS))
    if unknown:
        raise SpecError(f"Option --only names no part: {unknown[0]}", why=known, next="correct --only", code="LW-7006")
    return chosen | {need for group in chosen for need in NEEDS.get(group, set())}


def parts(site: StackContext, groups: Collection[str]) -> list[Part]:
    """The parts of these groups, in the order they start."""
    return [part(site) for part in PARTS if part.group in groups]
