"""When manifests are rewritten: a fast append writes one a batch, and planning a scan opens every one."""

from __future__ import annotations

from datetime import datetime

from lakeward.spec.model.policy import Manifests
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan.model import Action, History, NotPlanned

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
