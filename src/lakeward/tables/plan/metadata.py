"""When a table is told to let old metadata files go: every commit writes one, and by default none is ever deleted."""

from __future__ import annotations

from typing import Final

from lakeward.spec.policy import Metadata
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan.model import Action, NotPlanned
from lakeward.tables.plan.words import many

DELETE: Final = "write.metadata.delete-after-commit.enabled"
KEPT: Final = "write.metadata.previous-versions-max"
_NAMED: Final = 100
"""Iceberg's own limit of what a table's log names; older files stand on disk and are not counted."""


def plan_metadata(facts: TableFacts, policy: Metadata) -> Action | NotPlanned:
    """The repair of the two table properties that bound metadata files, by Iceberg's own rule from then on.

    Only what nobody has set is set: a value that stands in the table was somebody's choice.
    """
    if not policy.enabled:
        return NotPlanned("metadata", "switched off by policy")
    if facts.format == "delta":
        return NotPlanned("metadata", "a Delta table has none")
    there, files = facts.properties.get(DELETE), many(facts.metadata_files, "metadata file")
    if there is not None and there.lower() == "true":
        return NotPlanned("metadata", f"{files}, the oldest goes with each commit")
    if facts.properties.get("gc.enabled", "true").lower() == "false":
        return NotPlanned("metadata", "gc.enabled is false: its files may belong to somebody else", refused=True)
    if there is not None:
        return NotPlanned("metadata", f"{files} and growing, but {DELETE} = {there} was set by somebody")
    own = facts.properties.get(KEPT)
    if own is not None and not own.isdecimal():
        return NotPlanned("metadata", f"{files} and growing, but {KEPT} = {own} is no number")
    # A log at its limit is one that files drop out of, and stay on disk.
    limit = min(policy.previous_versions, _NAMED) if own is None else max(int(own), 1)
    if facts.metadata_files - 1 < limit:
        return NotPlanned("metadata", f"{files} (limit {limit} and the current one)")
    return Action(
        "metadata",
        f"{files} in its log (limit {limit} and the current one), and none is ever deleted: {DELETE} is not set",
        files=facts.metadata_files - 1 - limit,
        properties={DELETE: "true", **({} if KEPT in facts.properties else {KEPT: str(limit)})},
    )
