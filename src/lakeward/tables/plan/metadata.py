"""Plans metadata maintenance of an Iceberg table: rewriting manifests, and setting properties that are not set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from lakeward.platform.text import count, listed
from lakeward.spec.model import iceberg_properties as properties
from lakeward.spec.model.policy import Manifests, Metadata
from lakeward.tables.facts import TableFacts, gc_disabled
from lakeward.tables.plan.model import Action, History, NotPlanned

DELETE: Final = "write.metadata.delete-after-commit.enabled"
VERSIONS_MAX: Final = "write.metadata.previous-versions-max"
KEPT: Final = "lakeward.metadata-kept-for"
"""Table property: the other tables for which the deletion of old metadata files was switched off; empty since it is on
again."""
_NAMED: Final = 100
"""Iceberg's default length of a table's metadata log; older files remain on disk and are not counted."""


RETRIES: Final = {
    "commit.retry.num-retries": "10",
    "commit.retry.min-wait-ms": "200",
    "commit.retry.max-wait-ms": "10000",
}
"""Retries of a commit after a conflict. Iceberg's default of four tries within a second loses against a
stream that commits every ten seconds, and the stream's own commit loses against a rewrite."""


def plan_metadata(facts: TableFacts, policy: Metadata) -> Action | NotPlanned:
    """The repair of an Iceberg table's properties: those that bound the number of metadata files, and those for commit
    retries of its streams.

    Only properties that are not set are set: an existing value is a decision. One that cannot be read is none: commits
    fail. It is set to what Iceberg can read, alone and first.
    """
    wrong = properties.unreadable(facts.properties, facts.location)
    said = properties.words(facts.properties, wrong)
    if not policy.enabled:
        return NotPlanned("metadata", f"{f'{said}; not mended: ' if wrong else ''}switched off by policy")
    if wrong:
        return Action("metadata", said, properties=wrong)
    found = _files(facts, policy)
    unset = {} if RETRIES.keys() & facts.properties.keys() else RETRIES
    if not facts.streams or not unset or (isinstance(found, NotPlanned) and found.refused):
        return found
    retried = "its commits fail after four tries within a second: commit.retry.num-retries is not set"
    if isinstance(found, NotPlanned):
        return Action("metadata", retried, properties=unset)
    return replace(found, why=f"{found.why}; {retried}", properties={**found.properties, **unset})


def _files(facts: TableFacts, policy: Metadata) -> Action | NotPlanned:
    there, files = facts.properties.get(DELETE), count(facts.metadata_files, "metadata file")
    if there is not None and there.lower() == "true":
        return NotPlanned("metadata", f"{files}, the oldest is deleted with each commit")
    if gc_disabled(facts.properties):
        return NotPlanned("metadata", "gc.enabled is false: its files may belong to another table", refused=True)
    if there is not None:
        return NotPlanned("metadata", f"{files} and growing, but {DELETE} is set to {there}")
    own = facts.properties.get(VERSIONS_MAX)
    # From a log at its limit, files are removed and remain on disk.
    limit = min(policy.previous_versions, _NAMED) if own is None else max(int(own), 1)
    if facts.metadata_files - 1 < limit:
        return NotPlanned("metadata", f"{files} (limit {limit} and the current one)")
    return Action(
        "metadata",
        f"{files} in its log (limit {limit} and the current one), and none is ever deleted: {DELETE} is not set",
        files=facts.metadata_files - 1 - limit,
        properties={
            DELETE: "true",
            **({} if VERSIONS_MAX in facts.properties else {VERSIONS_MAX: str(limit)}),
        },
    )


def kept_for_others(made: Action | NotPlanned, facts: TableFacts, begins: Mapping[str, str]) -> Action | NotPlanned:
    """The repair, so that no commit deletes a metadata file at which another table is.

    Args:
        made: what is planned without such tables.
        begins: other table -> the file of this table's metadata log at which it is.
    """
    if isinstance(made, Action) and not made.properties.keys() <= {DELETE, VERSIONS_MAX, *RETRIES}:
        return made  # properties that cannot be read are mended first
    deletes = (facts.properties.get(DELETE) or "").lower() == "true"
    if begins and (deletes or (isinstance(made, Action) and DELETE in made.properties)):
        name, file = min(begins.items())
        why = f"{listed(sorted(begins))} {'is' if len(begins) == 1 else 'are'} at metadata files of this table"
        why += f" ({name}: {file}), which later commits would delete: {DELETE} is switched off until they left its log"
        return Action("metadata", why, properties={DELETE: "false", KEPT: ", ".join(sorted(begins))})
    if not begins and not deletes and facts.properties.get(KEPT):
        why = f"the metadata files kept for {facts.properties[KEPT]} have left the log of the table"
        return Action("metadata", f"{why}: {DELETE} is switched on again", properties={DELETE: "true", KEPT: ""})
    return made


WORTH = 10  # with fewer manifests a rewrite has no noticeable effect


def plan_manifests(facts: TableFacts, policy: Manifests, history: History, now: datetime) -> Action | NotPlanned:
    """The rewrite of a table's manifests."""
    if not policy.enabled:
        return NotPlanned("manifests", "switched off by policy")
    count = facts.profile.data_manifests
    density = facts.profile.files / count if count else 0.0
    if count > policy.max_manifests:
        why = f"{count} manifests (limit {policy.max_manifests})"
    elif count >= WORTH and density < policy.min_files_per_manifest:
        why = f"{density:.1f} files a manifest in {count} manifests (required: {policy.min_files_per_manifest})"
    else:
        return NotPlanned("manifests", f"{count} manifests, {density:.1f} files in each")
    last = history.done.get("manifests")
    ready = last + policy.every.timedelta if last else now
    if ready > now:
        return NotPlanned("manifests", f"{why}, but rewritten at {last:%H:%M}", ready)
    return Action("manifests", why, files=count)
