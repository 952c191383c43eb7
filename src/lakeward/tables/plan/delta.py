"""Plans VACUUM and log retention of a Delta table.

`VACUUM` deletes by age and ignores readers: while a reader needs older files, it is not run. Delta expires the log by
age, with every checkpoint, and ignores readers too.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final

from lakeward.connectors.delta import properties
from lakeward.platform.text import count, moment, span
from lakeward.spec.model.policy import Expire, Policy
from lakeward.spec.model.types import Duration
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan.model import Action, History, Needs, NotPlanned

MIN_FILE_AGE: Final = timedelta(hours=168)
"""Delta's minimum retention: with less a VACUUM may delete files of a running commit or query."""


def plan_vacuum(
    facts: TableFacts, policy: Expire, needs: Needs, history: History, now: datetime
) -> Action | NotPlanned:
    """The VACUUM of a table: never below `needs.min_file_age` or the table's own property, and not while a snapshot pin
    is older."""
    if not policy.enabled:
        return NotPlanned("expire", "switched off by policy")
    if needs.refusals:
        return NotPlanned("expire", "; ".join(needs.refusals), refused=True)
    own = _span(facts.properties.get(FILE_RETENTION, "0 days"))
    if own is None:
        setting = f"{FILE_RETENTION} = {facts.properties[FILE_RETENTION]}"
        return NotPlanned("expire", f"{setting} is not an interval in days, hours or weeks", refused=True)
    retention = max(policy.older_than.timedelta, needs.min_file_age, own)
    cutoff, last = now - retention, history.done.get("expire")
    seen = last - retention if last is not None else None  # the log still has files that the last one deleted
    remaining = [at for at in facts.tombstones.values() if seen is None or at >= seen]
    going = [at for at in remaining if at < cutoff]
    if not going:
        when = min(remaining, default=None)
        why = f"no file was taken out more than {span(retention)} ago" if remaining else "no file waits to be deleted"
        return NotPlanned("expire", why, when + retention if when else None)
    what = f"{count(len(going), 'file')} were taken out more than {span(retention)} ago"
    tightest = min(needs.clamps, key=lambda clamp: clamp.at, default=None)
    if tightest is not None and tightest.at < cutoff:
        since = moment(tightest.at)
        return NotPlanned(
            "expire", f"{what}, but what was there since {since} is kept for {tightest.who} ({tightest.why})"
        )
    ready = last + policy.every.timedelta if last is not None else now
    if ready > now:
        return NotPlanned("expire", f"{what}, next look {span(ready - now)} ahead", ready)
    return Action("expire", what, files=len(going), older_than=cutoff)


FILE_RETENTION: Final = "delta.deletedFileRetentionDuration"
LOG_RETENTION: Final = "delta.logRetentionDuration"
CLEANED: Final = "delta.enableExpiredLogCleanup"
_DEFAULT: Final = timedelta(days=30)  # Delta's own
_AHEAD: Final = timedelta(days=2)  # margin between observing that a reader falls behind and the expiry of its log


def plan_log(facts: TableFacts, policy: Policy, needs: Needs, now: datetime) -> Action | NotPlanned:
    """The repair of the property for log retention.

    It is raised, also if a person set it, before the clean-up removes what a reader has not read. It is lowered only
    if it is not set and the log has grown long. Properties that Delta cannot read are set right alone and first.
    """
    wrong = properties.unreadable(facts.properties)
    said = properties.words({name: facts.properties[name] for name in wrong})
    if not policy.metadata.enabled:
        return NotPlanned("metadata", f"{f'{said}; not mended: ' if wrong else ''}switched off by policy")
    if wrong:
        return Action("metadata", said, properties=wrong)
    files, setting = count(facts.metadata_files, "file") + " in its log", facts.properties.get(LOG_RETENTION)
    if facts.properties.get(CLEANED, "true").lower() == "false":
        return NotPlanned("metadata", f"{files}, and no clean-up: {CLEANED} is set to false")
    retention = _DEFAULT if setting is None else _span(setting)
    if retention is None:
        return NotPlanned("metadata", f"{files}; {LOG_RETENTION} = {setting} is not an interval")
    tightest = min(needs.clamps, key=lambda clamp: clamp.at, default=None)
    if tightest is not None and now - tightest.at + _AHEAD > retention:
        interval = _days(now - tightest.at + MIN_FILE_AGE)
        why = f"the log reaches {span(retention)} back, and {tightest.who} needs what is {span(now - tightest.at)} old"
        return Action("metadata", f"{why} ({tightest.why})", properties={LOG_RETENTION: interval})
    if setting is not None:
        return NotPlanned("metadata", f"{files}, which reaches {span(retention)} back: {LOG_RETENTION} is set")
    if facts.metadata_files <= policy.metadata.log_files:
        return NotPlanned("metadata", f"{files} (limit {policy.metadata.log_files})")
    file_age = max(policy.expire.older_than.timedelta, needs.min_file_age)
    if tightest is not None and now - tightest.at + _AHEAD > file_age:
        needed = f"{tightest.who} needs what is {span(now - tightest.at)} old"
        return NotPlanned("metadata", f"{files} (limit {policy.metadata.log_files}), but {needed}")
    why = f"{files} (limit {policy.metadata.log_files}): it reaches {span(retention)} back, files do {span(file_age)}"
    return Action("metadata", why, properties={LOG_RETENTION: _days(file_age)})


def _days(duration: timedelta) -> str:
    return f"interval {math.ceil(duration / timedelta(days=1))} days"


def _span(text: str) -> timedelta | None:
    """The time of an interval of a table's property; None if it is none. At most a century."""
    length = properties.seconds(text)
    return None if length is None else timedelta(seconds=min(length, Duration.most[0]))
