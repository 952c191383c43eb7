"""Whether a sink holds what the source says: the campaign's oracle, which knows nothing of the product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from exactly_once_streams import Kind, Proof

Row = Mapping[str, Any]
At = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True)
class Record:
    """One record of the source: where the broker put it, and what it says."""

    at: At
    value: Row


@dataclass(frozen=True)
class Judged:
    """What the oracle found; all three empty is what must be.

    Attributes:
        lost, doubled: of records or keys, in words.
        wrong: rows that nobody sent, or with other values.
    """

    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def problems(self) -> list[str]:
        """In words; none is what must be."""
        return [f"{name}: {', '.join(found)}" for name, found in vars(self).items() if found]

    @property
    def clean(self) -> bool:
        """Nothing found."""
        return not (self.lost or self.doubled or self.wrong)


def judge(kind: Kind, records: Sequence[Record], rows: Sequence[Row]) -> Judged:
    """Compare a sink with its source. A double is one for an exact sink only; see `repeated`."""
    return _PROOFS[kind.proof](kind, records, rows)


def repeated(rows: Iterable[Row]) -> Counter[At]:
    """Positions that stand there more than once, and how often."""
    counts = Counter((row["_kafka_partition"], row["_kafka_offset"]) for row in rows)
    return Counter({at: count for at, count in counts.items() if count > 1})


def _positions(kind: Kind, records: Sequence[Record], rows: Sequence[Row]) -> Judged:
    sent = {each.at: each.value for each in records}
    counts = Counter((row["_kafka_partition"], row["_kafka_offset"]) for row in rows)
    wrong = [
        f"{row}" for row in rows
        if (value := sent.get((row["_kafka_partition"], row["_kafka_offset"]))) is None
        or any(row[name] != value[name] for name in ("n", "k", "v", "op"))
    ]  # fmt: skip
    doubled = [f"{at} {count} times" for at, count in sorted(counts.items()) if count > 1] if kind.exact else []
    return Judged(_some(str(at) for at in sorted(sent.keys() - counts.keys())), _some(doubled), _some(wrong))


def _numbers(kind: Kind, records: Sequence[Record], rows: Sequence[Row]) -> Judged:
    """Each record once, by its own number: as files it has other positions."""
    return _same({each.value["n"]: each.value["v"] for each in records}, [(row["n"], row["v"]) for row in rows])


def _groups(kind: Kind, records: Sequence[Record], rows: Sequence[Row]) -> Judged:
    """Duplicates are dropped by group: each group once, as one of the records that have it."""
    sent = {each.at: each.value for each in records}
    counts = Counter(row["g"] for row in rows)
    wrong = [
        str(row) for row in rows
        if (value := sent.get((row["_kafka_partition"], row["_kafka_offset"]))) is None or value["g"] != row["g"]
    ]  # fmt: skip
    lost = {str(value["g"]) for value in sent.values()} - counts.keys()
    return Judged(_some(sorted(lost)), _some(f"{g}: {count}" for g, count in counts.items() if count > 1), _some(wrong))


def _keys(kind: Kind, records: Sequence[Record], rows: Sequence[Row]) -> Judged:
    newest: dict[str, Row] = {}
    for each in sorted(records, key=lambda each: int(each.value["n"])):
        newest[each.value["k"]] = each.value
    deletes = "delete_when" in kind.options
    wanted = {k: (value["n"], value["v"]) for k, value in newest.items() if not (deletes and value["op"] == "d")}
    return _same(wanted, [(row["k"], (row["n"], row["v"])) for row in rows])


def _totals(kind: Kind, records: Sequence[Record], rows: Sequence[Row]) -> Judged:
    wanted = _aggregated(each.value["k"] for each in records), _aggregated_sums(records, lambda value: value["k"])
    return _same(
        {k: (wanted[0][k], wanted[1][k]) for k in wanted[0]}, [(row["k"], (row["c"], row["s"])) for row in rows]
    )


def _windows(kind: Kind, records: Sequence[Record], rows: Sequence[Row]) -> Judged:
    def window(value: Row) -> tuple[str, str]:
        return str(value["t"])[:16], value["k"]

    counts, sums = _aggregated(window(each.value) for each in records), _aggregated_sums(records, window)
    found = [((_minute(row["w"]), row["k"]), (row["c"], row["s"])) for row in rows]
    if not kind.exact:  # each change of a group is sent, and perhaps again: the last one is the group as it is
        found = list(dict(found).items())
    return _same({at: (counts[at], sums[at]) for at in counts}, found)


def _minute(moment: Any) -> str:
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).isoformat()[:16] if moment.tzinfo else moment.isoformat()[:16]
    return str(moment)[:16]


def _aggregated(keys: Iterable[Any]) -> Counter[Any]:
    return Counter(keys)


def _aggregated_sums(records: Sequence[Record], of: Callable[[Row], Any]) -> dict[Any, int]:
    sums: dict[Any, int] = {}
    for each in records:
        sums[of(each.value)] = sums.get(of(each.value), 0) + int(each.value["v"])
    return sums


def _same(wanted: Mapping[Any, Any], found: Sequence[tuple[Any, Any]]) -> Judged:
    counts = Counter(k for k, _ in found)
    return Judged(
        _some(str(k) for k in wanted if k not in counts),
        _some(f"{k} {count} times" for k, count in counts.items() if count > 1),
        _some(f"{k}: {value} instead of {wanted.get(k)}" for k, value in found if wanted.get(k) != value),
    )


def _some(found: Iterable[str]) -> tuple[str, ...]:
    """A few, and how many more."""
    every = list(found)
    return (*every[:3], f"and {len(every) - 3} more") if len(every) > 3 else tuple(every)


_PROOFS: Mapping[Proof, Callable[[Kind, Sequence[Record], Sequence[Row]], Judged]] = {
    "positions": _positions,
    "numbers": _numbers,
    "keys": _keys,
    "totals": _totals,
    "windows": _windows,
    "groups": _groups,
}
