"""Decides whether orphan files may be removed, and when the listing looks like a mistake. Pure.

The order is fixed: the location is listed before the metadata is read. A file committed in between is then referenced,
not missing; files written recently are left alone in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from lakeward.platform.text import count, minute, size, span
from lakeward.registry.maintenance import Figures, LedgerRow
from lakeward.spec.model.policy import Orphans
from lakeward.tables.plan.model import Action, Needs, NotPlanned

SAMPLE: Final = 20  # maximum paths shown as examples
ACTION: Final = "orphans"
_EARLY: Final = 0.1  # share of the interval by which a run may be early: schedules are not exact to the second


@dataclass(frozen=True)
class Survey:
    """The result of comparing a listed location with the table's metadata; paths are relative to the location.

    Attributes:
        listed, listed_bytes: files below the location, without the trash folder.
        orphans, orphan_bytes: unreferenced and old enough.
        young: unreferenced and too young.
        trashed, trashed_bytes: files in the trash folder.
        lost: referenced files that were not listed; `lost_sample` are some of them.
        elsewhere: referenced files outside of the location, which are not checked.
        strangers: other tables or checkpoints below the location.
        mismatched: referenced files whose path is below the location in another scheme, bucket or host.
        sample: some of the orphans.
    """

    listed: int = 0
    listed_bytes: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    young: int = 0
    trashed: int = 0
    trashed_bytes: int = 0
    lost: int = 0
    elsewhere: int = 0
    strangers: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()
    lost_sample: tuple[str, ...] = ()
    sample: tuple[str, ...] = ()

    def figures(self) -> Figures:
        """For the ledger."""
        return {
            "listed_files": self.listed,
            "listed_bytes": self.listed_bytes,
            "orphan_files": self.orphans,
            "orphan_bytes": self.orphan_bytes,
            "young_files": self.young,
            "sample": list(self.sample),
        }


def oldest_removable(policy: Orphans, longest_batch_s: float, now: datetime) -> datetime:
    """Only files written before this time may be removed: a file of a running batch is not referenced yet."""
    return now - max(policy.older_than.timedelta, timedelta(seconds=3 * longest_batch_s))


def rules(policy: Orphans, location: str) -> dict[str, object]:
    """The rules of a run. With other rules, orphans are shown again before any file is removed."""
    return {"location": location, **policy.model_dump(mode="json", exclude={"enabled", "every"})}


def shown(planned_rules: Mapping[str, object], ledger: Sequence[LedgerRow]) -> bool:
    """Whether an earlier run with the same rules ended: people have seen its result before files are removed."""
    return any(
        row["result"] in ("done", "skipped") and (row["before"] or {}).get("rules") == planned_rules for row in ledger
    )


def not_listed_because(
    policy: Orphans, needs: Needs, last: datetime | None, now: datetime, intruder: str
) -> NotPlanned | None:
    """Why a location is not listed at all; None if it is.

    Args:
        policy: the table's thresholds.
        needs: what streams and people need of the table.
        last: when its orphans were last removed.
        now: the registry's time.
        intruder: an overlap of another table with the location.
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
        return NotPlanned(ACTION, f"the location was checked {span(now - (last or now))} ago", ready)
    return None


def judge(found: Survey, policy: Orphans) -> Action | NotPlanned:
    """Whether the found orphans may be removed."""
    what = (
        f"{count(found.orphans, 'orphan file')} of {size(found.orphan_bytes)} among {count(found.listed, 'file')} of "
    )
    what += size(found.listed_bytes)
    if found.strangers:
        return _refused(f"below the location is {', '.join(found.strangers)}: its files would count as orphans")
    if found.mismatched:
        return _refused(
            f"the table references {found.mismatched[0]}: the same path by another scheme, bucket, host or link, "
            "which may be the same place"
        )
    if found.lost:
        some = ", ".join(found.lost_sample[:3]) + (", .." if found.lost > 3 else "")
        return _refused(
            f"{count(found.lost, 'file')} the table references were not listed ({some}): the listing is incomplete or "
            "the table is damaged"
        )
    if not found.orphans:
        young = f", {found.young} too young to tell" if found.young else ""
        return NotPlanned(ACTION, f"no orphans among {count(found.listed, 'file')}{young}")
    if found.orphans > policy.max_files:
        return _refused(f"{what}: more than max_files ({policy.max_files}) looks like a mistake; {_LOOK}")
    if found.orphan_bytes > policy.max_share * found.listed_bytes:
        return _refused(f"{what}: more than max_share ({policy.max_share:g}) looks like a mistake; {_LOOK}")
    return Action(ACTION, what, files=found.orphans, size_bytes=found.orphan_bytes)


_LOOK = "check some of them, then raise it for this table in conf/tables.yaml"


def _refused(why: str) -> NotPlanned:
    return NotPlanned(ACTION, why, refused=True)
