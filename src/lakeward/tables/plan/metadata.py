"""When the metadata of an Iceberg table is set right: manifests are rewritten, and the properties that nobody set."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from lakeward.platform.text import count
from lakeward.spec.model.policy import Manifests, Metadata
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan.model import Action, History, NotPlanned

DELETE: Final = "write.metadata.delete-after-commit.enabled"
KEPT: Final = "write.metadata.previous-versions-max"
_NAMED: Final = 100
"""Iceberg's own limit of what a table's log names; older files stand on disk and are not counted."""


RETRIES: Final = {
    "commit.retry.num-retries": "10",
    "commit.retry.min-wait-ms": "200",
    "commit.retry.max-wait-ms": "10000",
}
"""How often a commit that another one overtook is tried again: Iceberg's four tries within a second are lost against a
stream that commits every ten seconds, and the stream's own against a rewrite."""


def plan_metadata(facts: TableFacts, policy: Metadata) -> Action | NotPlanned:
    """The repair of an Iceberg table's properties: those that bound metadata files, by Iceberg's own rule from then on,
    and those that try a stream's commits again.

    Only what nobody has set is set: a value that stands in the table was somebody's choice.
    """
    if not policy.enabled:
        return NotPlanned("metadata", "switched off by policy")
    found = _files(facts, policy)
    unset = {} if RETRIES.keys() & facts.properties.keys() else RETRIES
    if not facts.streams or not unset or (isinstance(found, NotPlanned) and found.refused):
        return found
    retried = "its commits are given up after four tries within a second: commit.retry.num-retries is not set"
    if isinstance(found, NotPlanned):
        return Action("metadata", retried, properties=unset)
    return replace(found, why=f"{found.why}; {retried}", properties={**found.properties, **unset})


def _files(facts: TableFacts, policy: Metadata) -> Action | NotPlanned:
    there, files = facts.properties.get(DELETE), count(facts.metadata_files, "metadata file")
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


WORTH = 10  # below this many manifests nobody feels the difference, and one rewrite ends below it


def plan_manifests(facts: TableFacts, policy: Manifests, history: History, now: datetime) -> Action | NotPlanned:
    """The rewrite of a table's manifests."""
    if not policy.enabled:
        return NotPlanned("manifests", "switched off by policy")
    count = facts.profile.data_manifests
    density = facts.profile.files / count if count else 0.0
    if count > policy.max_manifests:
        why = f"{count} manifests (limit {policy.max_manifests})"
    elif count >= WORTH and density < policy.min_files_per_manifest:
        why = f"{density:.1f} files a manifest in {count} manifests (wanted {policy.min_files_per_manifest})"
    else:
        return NotPlanned("manifests", f"{count} manifests, {density:.1f} files in each")
    last = history.done.get("manifests")
    ready = last + policy.every.timedelta if last else now
    if ready > now:
        return NotPlanned("manifests", f"{why}, but rewritten at {last:%H:%M}", ready)
    return Action("manifests", why, files=count)
