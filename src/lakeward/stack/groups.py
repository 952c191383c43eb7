"""Parts of the stack, and the groups of them that `--only` accepts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Home
from lakeward.stack import external
from lakeward.stack.airflow_parts import ApiServer, DagProcessor, Scheduler, Triggerer
from lakeward.stack.external import ExternalServices
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


def of(home: Home) -> tuple[str, ...]:
    """The groups that a home can run: all, or those that are not its external services."""
    return GROUPS if ExternalServices.load(home) is None else external.GROUPS


def resolve(requested: Iterable[str] | None, available: Collection[str] = GROUPS) -> set[str]:
    """The groups to run: the requested ones and their dependencies; all that are available for None.

    Raises:
        SpecError: a name is not a group, there is no name, or the group runs elsewhere.
    """
    chosen = set(available if requested is None else requested)
    known = f"the parts are {', '.join(available)}"
    if not chosen:
        raise SpecError(
            "Option --only is empty", why=known, next="lakeward stack up   starts all of them", code="LW-7005"
        )
    unknown = sorted(chosen - set(GROUPS))
    if unknown:
        raise SpecError(
            f"Option --only names no part: {unknown[0]}",
            why=known,
            next="lakeward stack up   starts all of them",
            code="LW-7006",
        )
    elsewhere = sorted(chosen - set(available))
    if elsewhere:
        raise SpecError(
            f"Option --only names a part that this home does not run: {elsewhere[0]}",
            why=f"its services run elsewhere, as `lakeward stack use` recorded in {external.FILE}; {known}",
            next="lakeward stack up   starts all of this home; or name another: --home DIR",
            code="LW-7034",
        )
    return chosen | {need for group in chosen for need in NEEDS.get(group, set()) if need in available}


def parts(site: StackContext, groups: Collection[str]) -> list[Part]:
    """The parts of these groups, in the order they start."""
    return [part(site) for part in PARTS if part.group in groups]
