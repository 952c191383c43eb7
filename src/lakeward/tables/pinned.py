"""Who keeps history of a table, how much, and what ends it: `tables readers`, and the page.

Pure. An expiry stops at the oldest pin; Iceberg itself keeps what tags and branches are on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lakeward.platform.text import moment, rfc3339, word
from lakeward.spec.model.policy import Expire
from lakeward.spec.sql.statements import call_name, quote
from lakeward.tables.documents import Pin
from lakeward.tables.facts import MAIN, VERIFIED, Ref, Snapshot, TableFacts
from lakeward.tables.plan.expire import expirable, with_own
from lakeward.tables.plan.model import Needs, SnapshotPin

_REMOVED = "removed-files-size"
"""Iceberg's summary of a commit: bytes of the files that it removed from the table."""


def documents(facts: TableFacts, policy: Expire, needs: Needs, now: datetime) -> list[Pin]:
    """The pins of a table and its tags and branches; those that keep the most snapshots first."""
    own = with_own(policy, facts.properties)
    policy = policy if isinstance(own, str) else own
    edge = now - policy.older_than.timedelta
    alone = replace(facts, refs={name: ref for name, ref in facts.refs.items() if name == MAIN})
    old = expirable(alone, edge, policy.min_snapshots, now)
    chain = facts.main()
    found = [_of_pin(facts, pin, [each for each in facts.snapshots if each.id in old], chain) for pin in needs.clamps]
    found += _of_refs(facts, old, edge, policy.min_snapshots, now)
    return sorted(found, key=lambda pin: (-pin["snapshots"], pin["since"], pin["who"]))


def stored(pins: Sequence[Pin]) -> list[dict[str, object]]:
    """As the registry keeps them: without those that keep nothing for the moment, whose times move with the clock."""
    return [{**pin, "since": rfc3339(pin["since"], "seconds")} for pin in pins if pin["snapshots"]]


def _of_pin(facts: TableFacts, pin: SnapshotPin, old: Sequence[Snapshot], chain: Sequence[Snapshot]) -> Pin:
    kept = {each.id for each in old if each.at >= pin.at}
    return {
        "kind": pin.kind,
        "who": pin.who,
        "stream": pin.stream,
        "why": pin.why,
        "since": pin.at,
        "snapshots": len(kept),
        "bytes": _bytes(facts, chain, kept),
        "next": _next(facts.table, pin),
    }


def _of_refs(facts: TableFacts, old: set[int], edge: datetime, least: int, now: datetime) -> Iterator[Pin]:
    known, outlived, chain = facts.by_id(), facts.outlived(now), facts.main()
    for name, ref in facts.refs.items():
        on = known.get(ref.snapshot_id)
        if name == MAIN or name in outlived or on is None:
            continue
        own = replace(facts, refs={name: ref})
        kept = old - expirable(own, edge, least, now) if ref.kind == "branch" else old & {on.id}
        since = min((known[each].at for each in kept), default=on.at)
        yield {
            "kind": ref.kind,
            "who": f"{ref.kind} {name}",
            "stream": None,
            "why": f"it is on snapshot {on.id}",
            "since": since,
            "snapshots": len(kept),
            # What the ref has of the files that main no longer has was removed between its snapshot and main's oldest.
            "bytes": _bytes(facts, chain, {each for each in old if known[each].at >= since} if kept else set()),
            "next": _ends(facts, name, ref, on),
        }


def _bytes(facts: TableFacts, chain: Sequence[Snapshot], kept: Collection[int]) -> int | None:
    """Bytes of the files that commits on main removed from the snapshots that are kept."""
    if facts.format != "iceberg":
        return None
    return sum(each.count(_REMOVED) for each in chain if each.parent in kept)


def _next(table: str, pin: SnapshotPin) -> str:
    if pin.kind == "reader":
        stream = word(pin.stream or "")
        return f"lakeward streams status {stream}   it catches up, or: lakeward deploy --retire {stream}"
    return {
        "check": f"lakeward quality show {word(table)}",
        "maintenance": f"lakeward tables why {word(table)}   it ends with the rewrite",
        "batch": "it ends with the batch",
    }.get(pin.kind, "it ends with the next batch that the stream lands")


def _ends(facts: TableFacts, name: str, ref: Ref, on: Snapshot) -> str:
    if name == VERIFIED:
        return f"lakeward quality show {word(facts.table)}   the next run that passes moves it"
    if ref.expires_after_ms is not None:
        return f"it ends by itself at {moment(on.at + timedelta(milliseconds=ref.expires_after_ms))}"
    drop = f"ALTER TABLE {call_name(facts.table, facts.catalog)} DROP {ref.kind.upper()} {quote(name)}"
    return f"lakeward sql --write {word(drop)}"
