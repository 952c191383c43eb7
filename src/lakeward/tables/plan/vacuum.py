"""When files that no version of a Delta table needs any more are deleted (`VACUUM`): Delta's form of expiry.

`VACUUM` deletes by age alone and knows no reader: where somebody needs files older than what is kept, it waits.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from lakeward.platform.text import count, moment, span
from lakeward.spec.model.policy import Expire
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan.model import Action, History, Needs, NotPlanned

LEAST_KEPT: Final = timedelta(hours=168)
"""Delta's own floor: less lets a VACUUM take files of a commit or a query that is still going on."""


def plan_vacuum(
    facts: TableFacts, policy: Expire, needs: Needs, history: History, now: datetime
) -> Action | NotPlanned:
    """The VACUUM of a table. Never below `needs.least_kept`, and not while a clamp is older than that."""
    if not policy.enabled:
        return NotPlanned("expire", "switched off by policy")
    if needs.refusals:
        return NotPlanned("expire", "; ".join(needs.refusals), refused=True)
    kept = max(policy.older_than.timedelta, needs.least_kept)
    cutoff, last = now - kept, history.done.get("expire")
    seen = last - kept if last is not None else None  # what the last one took is still told by the log
    left = [at for at in facts.tombstones.values() if seen is None or at >= seen]
    going = [at for at in left if at < cutoff]
    if not going:
        when = min(left, default=None)
        why = f"no file was taken out more than {span(kept)} ago" if left else "no file waits to be deleted"
        return NotPlanned("expire", why, when + kept if when else None)
    what = f"{count(len(going), 'file')} were taken out more than {span(kept)} ago"
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
