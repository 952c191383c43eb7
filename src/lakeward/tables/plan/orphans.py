"""When a table's orphan files may go, and when what was found looks more like a mistake than like waste.

The order is fixed: the location is listed first, what the metadata names is read after. A file that is committed in
between is then named, not missing; and whatever was written lately is left alone, named or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from lakeward.platform.text import count, minute, size, span
from lakeward.spec.model.policy import Orphans
from lakeward.tables.plan.model import Action, Needs, NotPlanned

SAMPLE: Final = 20  # paths shown of what was found
ACTION: Final = "orphans"
_EARLY: Final = 0.1  # share of the interval by which a run may come early: a weekly schedule is never on the second


@dataclass(frozen=True)
class Survey:
    """What listing a location and reading its table's metadata found; paths are relative to the location.

    Attributes:
        listed, listed_bytes: files below the location, without those put aside.
        orphans, orphan_bytes: old enough, and named by nothing.
        young: named by nothing and too young.
        aside, aside_bytes: put aside by earlier runs and still there.
        lost: files the table needs that were not listed; `lost_sample` some of them.
        elsewhere: files the table needs outside its location: they are not looked at.
        strangers: other tables or checkpoints found below the location.
        mismatched: needed files whose path is below the location in another scheme, bucket or host.
        sample: some of the orphans.
    """

    listed: int = 0
    listed_bytes: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    young: int = 0
    aside: int = 0
    aside_bytes: int = 0
    lost: int = 0
    elsewhere: int = 0
    strangers: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()
    lost_sample: tuple[str, ...] = ()
    sample: tuple[str, ...] = ()

    def figures(self) -> dict[str, Any]:
        """For the ledger."""
        return {
            "listed_files": self.listed,
            "listed_bytes": self.listed_bytes,
            "orphan_files": self.orphans,
            "orphan_bytes": self.orphan_bytes,
            "young_files": self.young,
            "sample": list(self.sample),
        }


def oldest_kept(policy: Orphans, longest_batch_s: float, now: datetime) -> datetime:
    """Only what was written before this moment may go: a file of a batch under way is named by nothing yet."""
    return now - max(policy.older_than.timedelta, timedelta(seconds=3 * longest_batch_s))


def rules(policy: Orphans, location: str) -> dict[str, Any]:
    """What a dry run showed the outcome of: with other rules it is shown again before anything goes."""
    return {"location": location, **policy.model_dump(mode="json", exclude={"enabled", "every"})}


def shown(wanted: Mapping[str, Any], ledger: list[dict[str, Any]]) -> bool:
    """Whether an earlier run by the same rules ended: what they find was shown to people before anything goes."""
    return any(row["result"] in ("done", "skipped") and (row["before"] or {}).get("rules") == wanted for row in ledger)


def stopped(policy: Orphans, needs: Needs, last: datetime | None, now: datetime, intruder: str) -> NotPlanned | None:
    """Why a location is not even listed; None if it is.

    Args:
        policy: the table's thresholds.
        needs: what streams and people need of the table.
        last: when its orphans last went.
        now: the registry's time.
        intruder: what else lies below the location, or around it.
    """
    if not policy.enabled:
        return NotPlanned(ACTION, "switched off by policy")
    if needs.forbidden or intruder:
        return NotPlanned(ACTION, needs.forbidden or f"refused: {intruder}", refused=True)
    if needs.hold_until is not None and needs.hold_until > now:
        return NotPlanned(ACTION, f"held by a person until {minute(needs.hold_until)}", needs.hold_until)
    if needs.refusals:
        return NotPlanned(ACTION, "; ".join(needs.refusals), refused=True)
    ready = last + policy.every.timedelta * (1 - _EARLY) if last else now
    if ready > now:
        return NotPlanned(ACTION, f"the location was gone through {span(now - (last or now))} ago", ready)
    return None


def judge(found: Survey, policy: Orphans) -> Action | NotPlanned:
    """Whether what was found may go."""
    what = (
        f"{count(found.orphans, 'orphan file')} of {size(found.orphan_bytes)} among {count(found.listed, 'file')} of "
    )
    what += size(found.listed_bytes)
    if found.strangers:
        return _refused(f"below the location lies {', '.join(found.strangers)}: its files would be taken for orphans")
    if found.mismatched:
        return _refused(
            f"the table names {found.mismatched[0]}: the same path in another scheme, bucket or host, or through a "
            "link; who lists one cannot tell whether it is the other"
        )
    if found.lost:
        some = ", ".join(found.lost_sample[:3]) + (", .." if found.lost > 3 else "")
        return _refused(
            f"{count(found.lost, 'file')} the table needs did not show in the listing ({some}): either the listing or "
            "the table is broken"
        )
    if not found.orphans:
        young = f", {found.young} too young to tell" if found.young else ""
        return NotPlanned(ACTION, f"no orphans among {count(found.listed, 'file')}{young}")
    if found.orphans > policy.max_files:
        return _refused(f"{what}: more than max_files ({policy.max_files}) looks like a mistake; {_LOOK}")
    if found.orphan_bytes > policy.max_share * found.listed_bytes:
        return _refused(f"{what}: more than max_share ({policy.max_share:g}) looks like a mistake; {_LOOK}")
    return Action(ACTION, what, files=found.orphans, size_bytes=found.orphan_bytes)


_LOOK = "look at some of them, then raise it for this table in conf/tables.yaml"


def _refused(why: str) -> NotPlanned:
    return NotPlanned(ACTION, why, refused=True)
