"""How far back a Delta table's log reaches: Delta cleans it by age, with every checkpoint, and knows no reader."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import Final

from lakeward.platform.text import count, span
from lakeward.spec.model.policy import Policy
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan.model import Action, Needs, NotPlanned
from lakeward.tables.plan.vacuum import LEAST_KEPT

KEPT: Final = "delta.logRetentionDuration"
CLEANED: Final = "delta.enableExpiredLogCleanup"
_DEFAULT: Final = timedelta(days=30)  # Delta's own
_AHEAD: Final = timedelta(days=2)  # between seeing that a reader falls behind and the log being cut under it
_INTERVAL: Final = re.compile(r"(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE)


def plan_log(facts: TableFacts, policy: Policy, needs: Needs, now: datetime) -> Action | NotPlanned:
    """The repair of the property that says how long the log reaches back.

    It is raised, whoever set it, before the clean-up takes what a reader has not read; and lowered where nobody set it
    and the log grew long.
    """
    if not policy.metadata.enabled:
        return NotPlanned("metadata", "switched off by policy")
    files, said = count(facts.metadata_files, "file") + " in its log", facts.properties.get(KEPT)
    if facts.properties.get(CLEANED, "true").lower() == "false":
        return NotPlanned("metadata", f"{files}, and no clean-up: {CLEANED} = false was set by somebody")
    kept = _DEFAULT if said is None else _span(said)
    if kept is None:
        return NotPlanned("metadata", f"{files}; {KEPT} = {said} is no time this reads")
    tightest = min(needs.clamps, key=lambda clamp: clamp.at, default=None)
    if tightest is not None and now - tightest.at + _AHEAD > kept:
        wanted = _days(now - tightest.at + LEAST_KEPT)
        why = f"the log reaches {span(kept)} back, and {tightest.who} needs what is {span(now - tightest.at)} old"
        return Action("metadata", f"{why} ({tightest.why})", properties={KEPT: wanted})
    if said is not None:
        return NotPlanned("metadata", f"{files}, which reaches {span(kept)} back: {KEPT} is set")
    if facts.metadata_files <= policy.metadata.log_files:
        return NotPlanned("metadata", f"{files} (limit {policy.metadata.log_files})")
    wanted_span = max(policy.expire.older_than.timedelta, needs.least_kept)
    if tightest is not None and now - tightest.at + _AHEAD > wanted_span:
        needed = f"{tightest.who} needs what is {span(now - tightest.at)} old"
        return NotPlanned("metadata", f"{files} (limit {policy.metadata.log_files}), but {needed}")
    why = f"{files} (limit {policy.metadata.log_files}): it reaches {span(kept)} back, files do {span(wanted_span)}"
    return Action("metadata", why, properties={KEPT: _days(wanted_span)})


def _days(wanted: timedelta) -> str:
    return f"interval {math.ceil(wanted / timedelta(days=1))} days"


def _span(text: str) -> timedelta | None:
    found = _INTERVAL.fullmatch(text.strip())
    return None if found is None else timedelta(**{f"{found[2].lower()}s": int(found[1])})
