"""What waits for a proof, and when that is late."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.quality.ranges.range import decide
from lakeward.quality.ranges.snapshot_chain import Mark
from lakeward.quality.ranges.verification_lag import Lag, first_seen, lag, late_s

LIMIT = timedelta(minutes=30)


@pytest.mark.parametrize(
    ("operations", "proven", "waiting"),
    [
        (("append", "append", "append"), 1, (2, 20, 2)),
        (("append", "append", "append"), 3, (0, 0, None)),
        (("append", "replace", "append"), 1, (1, 10, 3)),
        (("append", "replace"), 1, (0, 0, None)),  # a compaction shows nobody anything new
        (("append", "overwrite", "delete"), 1, (2, 0, 2)),  # an overwrite states rows it only carried over
        (("append", "append"), None, (2, 20, 1)),
    ],
)
def test_what_changed_rows_since_the_proof_waits(line, operations, proven, waiting) -> None:
    history = line(*operations)
    found = lag(decide(history, [Mark(proven, proven)] if proven else []))
    assert (found.snapshots, found.rows, found.oldest) == waiting
    assert found.since == (history.snapshots[found.oldest].at if found.oldest else None)


def test_a_batch_without_rows_and_a_table_that_is_gone_wait_for_nothing(line) -> None:
    history = line("append", "append")
    empty = replace(history.snapshots[2], added=0)
    found = decide(replace(history, snapshots={**history.snapshots, 2: empty}), [Mark(1, 1)])
    assert lag(found) == lag(None) == Lag()


def test_lateness_counts_from_the_first_look_that_saw_the_oldest_commit(line) -> None:
    found = lag(decide(line("append", "append"), [Mark(1, 1)]))
    assert found.since is not None
    day_later = found.since + timedelta(days=1)
    seen = first_seen(day_later, {"t": found}, {})
    assert late_s(day_later + timedelta(minutes=29), found, seen["t"], LIMIT) is None
    later = day_later + timedelta(minutes=31)
    seen = first_seen(later, {"t": found}, seen)  # the same commit waits: the first look counts on
    assert late_s(later, found, seen["t"], LIMIT) == pytest.approx(86_400 + 31 * 60)


def test_another_commit_that_waits_begins_anew_and_a_proof_ends_it(line) -> None:
    found = lag(decide(line("append", "append"), [Mark(1, 1)]))
    now = found.since + timedelta(hours=2)
    assert first_seen(now, {"t": found}, {"t": {"oldest": 99, "at": "2020-01-01T00:00:00+00:00"}}) == {
        "t": {"oldest": found.oldest, "at": now.isoformat()}
    }
    assert first_seen(now, {"t": Lag()}, {"t": {"oldest": 2, "at": "2020-01-01T00:00:00+00:00"}}) == {}
    assert late_s(now, Lag(), None, LIMIT) is None
