"""Plans snapshot expiry: snapshots older than the policy and every snapshot pin allow, beyond the minimum number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from lakeward.platform.text import count, moment, span, whole_number
from lakeward.spec.model.policy import Expire
from lakeward.spec.model.types import Duration
from lakeward.tables.facts import MAIN, VERIFIED, TableFacts
from lakeward.tables.plan.model import Action, History, Needs, NotPlanned, SnapshotPin

AGE, LEAST = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"
"""Properties by which the owner of a table says how much history it keeps."""
_MOST_MS = int(Duration.most[0] * 1000)  # a century: owners write 2**63 - 1 for ever, which no date can hold


def with_own(policy: Expire, properties: Mapping[str, str]) -> Expire | str:
    """The policy, which keeps at least what the table's own properties keep; why not, if Iceberg cannot read one."""
    kept: dict[str, object] = {}
    for key in (AGE, LEAST):
        text = properties.get(key)
        number = whole_number(text) if text is None or len(text) < 19 else _MOST_MS if text.isdecimal() else None
        if text is not None and number is None:
            return f"its property {key} is {text!r}, which is no whole number: set it to what the table has to keep"
        if number is not None and key == AGE and number > policy.older_than.seconds * 1000:
            kept["older_than"] = Duration(f"{min(number, _MOST_MS)}ms")
        if number is not None and key == LEAST:
            kept["min_snapshots"] = max(number, policy.min_snapshots)
    return policy.model_copy(update=kept) if kept else policy


def cutoff(policy: Expire, clamps: Sequence[SnapshotPin], now: datetime) -> tuple[datetime, SnapshotPin | None]:
    """The time before which snapshots may expire, and the pin that set it (None: the policy did)."""
    by_policy = now - policy.older_than.timedelta
    tightest = min(clamps, key=lambda clamp: clamp.at, default=None)
    if tightest is None or tightest.at >= by_policy:
        return by_policy, None
    return tightest.at, tightest


def expirable(facts: TableFacts, older_than: datetime, retain_last: int, now: datetime) -> set[int]:
    """The snapshots Iceberg would expire: not referenced, not young, and not among a branch's newest.

    A ref past its maximum age is dropped too and protects nothing.
    """
    retained: set[int] = set()
    outlived = facts.outlived(now)
    refs = [ref for name, ref in facts.refs.items() if name not in outlived]
    for ref in refs:
        if ref.kind == "tag":
            retained.add(ref.snapshot_id)
            continue
        least = ref.min_snapshots or retain_last
        edge = older_than if ref.max_age_ms is None else now - timedelta(milliseconds=ref.max_age_ms)
        for number, snapshot in enumerate(facts.ancestors(ref.snapshot_id)):
            old = snapshot.at < edge
            if old and number >= max(least, 1):
                break
            retained.add(snapshot.id)
    on_branches = {s.id for ref in refs if ref.kind == "branch" for s in facts.ancestors(ref.snapshot_id)}
    for snapshot in facts.snapshots:
        if snapshot.id not in on_branches and snapshot.at >= older_than:
            retained.add(snapshot.id)
    return {snapshot.id for snapshot in facts.snapshots} - retained


def _by_itself(facts: TableFacts, older_than: datetime, now: datetime) -> str:
    """What an expiry would remove because of a ref's own age, regardless of its arguments; empty for nothing."""
    main = facts.refs.get(MAIN)
    if main is not None and main.max_age_ms is not None:
        own = timedelta(milliseconds=main.max_age_ms)
        if now - own > older_than:
            return f"branch main keeps its snapshots for {span(own)} (max-snapshot-age-ms), regardless of the policy"
    if VERIFIED in facts.outlived(now):
        age = "max-ref-age-ms of the branch or the table"
        return f"branch {VERIFIED} would be dropped: its maximum age has passed ({age})"
    return ""


def plan_expire(
    facts: TableFacts, policy: Expire, needs: Needs, history: History, now: datetime
) -> Action | NotPlanned:
    """The expiry of a table's snapshots."""
    if not policy.enabled:
        return NotPlanned("expire", "switched off by policy")
    own = with_own(policy, facts.properties)
    if isinstance(own, str):
        return NotPlanned("expire", own, refused=True)
    kept = "" if own == policy else "; its own properties keep more than the policy"
    policy = own
    older_than, by = cutoff(policy, needs.clamps, now)
    going = expirable(facts, older_than, policy.min_snapshots, now)
    alone = _by_itself(facts, older_than, now)
    if alone:
        return NotPlanned("expire", alone, refused=True)
    pinned = f"; history since {moment(by.at)} is kept for {by.who} ({by.why})" if by else ""
    if needs.refusals:
        return NotPlanned("expire", "; ".join(needs.refusals), refused=True)
    snapshots = len(facts.snapshots)
    if not going:
        held = f"none of {count(snapshots, 'snapshot')} is older than {span(policy.older_than.timedelta)}"
        chain = facts.main()
        if snapshots <= policy.min_snapshots:
            held = f"{count(snapshots, 'snapshot')}, {policy.min_snapshots} are kept"
        elif by:
            held = f"no snapshot of {snapshots} may go"
        elif any(snapshot.at < older_than for snapshot in chain):
            held = f"{count(snapshots, 'snapshot')}, refs and the newest {policy.min_snapshots} are kept"
        oldest = min((s.at for s in facts.snapshots), default=None)
        when = oldest + policy.older_than.timedelta if oldest and not by and snapshots > policy.min_snapshots else None
        return NotPlanned("expire", held + kept + pinned, when if when and when > now else None)
    last, compacted = history.done.get("expire"), history.done.get("compact")
    ready = last + policy.every.timedelta if last else now
    after_compaction = compacted is not None and (last is None or compacted > last)
    if ready > now and not after_compaction:
        return NotPlanned(
            "expire", f"{count(len(going), 'snapshot')} may go, next look {span(ready - now)} ahead", ready
        )
    return Action(
        "expire",
        f"{len(going)} of {count(snapshots, 'snapshot')} are older than {moment(older_than)}{kept}{pinned}",
        files=len(going),
        older_than=older_than,
        retain_last=policy.min_snapshots,
    )
