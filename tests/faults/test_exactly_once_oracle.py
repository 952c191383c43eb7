"""The campaign's own parts, without a driver: every step comes, and every proof hears of what is lost or doubled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from exactly_once import steps_of
from exactly_once_oracle import Record, judge
from exactly_once_streams import ALL, BY_NAME, Kind

pytestmark = pytest.mark.unit

RECORDS = [
    Record((n % 3, n // 3), {
        "n": n, "k": f"k{n % 4}", "v": n, "op": "d" if n == 11 else "u", "g": f"g{n // 2}",
        "t": f"2026-01-01T00:0{n % 5}:00Z",
    })
    for n in range(12)
]  # fmt: skip


def right(kind: Kind) -> list[dict[str, Any]]:
    """What a sink must hold of the records."""
    rows = [
        {**each.value, "_kafka_partition": each.at[0], "_kafka_offset": each.at[1], "w": each.value["t"]}
        for each in RECORDS
    ]
    if kind.proof == "groups":
        return rows[::2]
    if kind.proof == "keys":
        newest = {row["k"]: row for row in rows}
        deletes = "delete_when" in kind.options
        return [row for row in newest.values() if not (deletes and row["op"] == "d")]
    if kind.proof == "positions":
        return rows
    of = (lambda row: (row["k"],)) if kind.proof == "totals" else (lambda row: (row["w"], row["k"]))
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        group = found.setdefault(of(row), {"k": row["k"], "w": row["w"], "c": 0, "s": 0})
        group["c"], group["s"] = group["c"] + 1, group["s"] + row["v"]
    return list(found.values())


@pytest.mark.parametrize("name", BY_NAME)
def test_a_row_too_few_too_many_or_different_is_found(name: str) -> None:
    kind, rows = BY_NAME[name], right(BY_NAME[name])
    assert judge(kind, RECORDS, rows).clean
    assert judge(kind, RECORDS, rows[1:]).lost
    if kind.exact:
        assert judge(kind, RECORDS, [*rows, rows[0]]).doubled
    other: Mapping[str, Any] = {**rows[0], "v": -1, "s": -1, "g": "another"}
    assert judge(kind, RECORDS, [other, *rows[1:]]).wrong


def test_every_stream_comes_to_each_of_its_steps() -> None:
    for kind in ALL:
        many = len(kind.steps)
        assert {steps_of(seed, [kind])[kind.name] for seed in range(3 * many, 4 * many)} == set(kind.steps)
