from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from lakeward.platform.errors import Transient
from lakeward.quality.publishing import verified as publish
from lakeward.quality.publishing.audit_tags import Tag
from lakeward.quality.publishing.verified import Move, advance, move, settle
from lakeward.quality.ranges.metadata import history
from lakeward.quality.ranges.snapshot_chain import History, Mark


def rolled_back(line, verified: int | None) -> History:
    """Main went 1 2 3, back to 2, and on with 4."""
    history = line(*["append"] * 4, verified=verified)
    history.snapshots[4] = replace(history.snapshots[4], parent=2)
    return history


class TestAdvance:
    def test_creates_and_moves(self, line) -> None:
        assert advance(line("append", "append"), 2).to == 2
        assert advance(line("append", "append", verified=1), 2).to == 2

    def test_never_beyond_what_was_checked(self, line) -> None:
        assert advance(line(*["append"] * 5, verified=1), 3).to == 3

    def test_twice_is_once(self, line) -> None:
        assert advance(line("append", "append", verified=2), 2).to is None

    def test_leaves_what_a_newer_run_moved(self, line) -> None:
        assert advance(line(*["append"] * 3, verified=3), 2).to is None

    def test_does_not_publish_what_left_main(self, line) -> None:
        move = advance(rolled_back(line, verified=1), 3)
        assert move.to is None and "no longer on main" in move.why

    def test_comes_back_to_main(self, line) -> None:
        move = advance(rolled_back(line, verified=3), 4)
        assert move.to == 4 and "off main" in move.why


class TestSettle:
    def test_agreement_is_left_alone(self, line) -> None:
        assert settle(line("append", "append", verified=1), Mark(1, 1)).to is None

    def test_without_proof_nothing_moves(self, line) -> None:
        assert settle(line("append", verified=1), None).to is None

    def test_the_results_win(self, line) -> None:
        for stands in (None, 1, 3):
            move = settle(line(*["append"] * 3, verified=stands), Mark(2, 2))
            assert move.to == 2 and "repaired" in move.why

    def test_not_to_a_snapshot_that_is_gone_or_off_main(self, line) -> None:
        assert settle(line(*["append"] * 3, gone=1), Mark(1, 1)).to is None
        assert settle(rolled_back(line, verified=None), Mark(3, 3)).to is None


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog of PyIceberg's own with the empty table `n.t`."""
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    made.create_namespace("n")
    made.create_table("n.t", pa.schema([("id", pa.int64())]))
    yield made
    made.engine.dispose()


def append(lake: Catalog) -> int:
    lake.load_table("n.t").append(pa.table({"id": [1]}))
    head = history(lake, "n.t").head
    assert head is not None
    return head


class TestMove:
    """Without Spark: no session is needed for a table of format 2."""

    no_session: Any = None

    def test_creates_and_moves_the_branch(self, lake) -> None:
        for number in range(2):
            checked = append(lake)
            done, stands = move(self.no_session, lake, "n.t", lambda now, to=checked: advance(now, to))
            assert (done.to, stands, history(lake, "n.t").verified) == (checked, checked, checked), number

    def test_makes_the_tag_of_a_day_in_the_same_commit_and_never_moves_it(self, lake) -> None:
        older, newer = append(lake), append(lake)
        day = Tag("verified-2026-11-21", older, timedelta(days=7))
        move(self.no_session, lake, "n.t", lambda now: replace(advance(now, newer), tag=day))
        made = lake.load_table("n.t").metadata
        assert made.refs[day.name].model_dump(by_alias=True, mode="json", exclude_none=True) == {
            "snapshot-id": older, "type": "tag", "max-ref-age-ms": 604_800_000
        }  # fmt: skip
        assert made.refs["verified"].snapshot_id == newer and len(made.metadata_log) == 3
        newest = append(lake)
        with pytest.raises(Transient, match=r"verified-2026-11-21 was created concurrently"):
            move(self.no_session, lake, "n.t", lambda now: replace(advance(now, newest), tag=day))

    def test_decides_again_when_main_was_rolled_back_meanwhile(self, lake) -> None:
        kept, checked = append(lake), append(lake)
        seen: list[History] = []

        def decide(now: History) -> Move:
            if not seen:
                lake.load_table("n.t").manage_snapshots().set_current_snapshot(snapshot_id=kept).commit()
            seen.append(now)
            return advance(now, checked)

        done, _ = move(self.no_session, lake, "n.t", decide)
        assert done.to is None and "no longer on main" in done.why
        assert ([each.head for each in seen], history(lake, "n.t").verified) == ([checked, kept], None)

    def test_does_not_take_back_what_a_newer_run_moved_meanwhile(self, lake) -> None:
        older, newer = append(lake), append(lake)
        seen: list[History] = []

        def decide(now: History) -> Move:
            if not seen:
                lake.load_table("n.t").manage_snapshots().create_branch(newer, "verified").commit()
            seen.append(now)
            return advance(now, older)

        done, stands = move(self.no_session, lake, "n.t", decide)
        assert (done.to, stands, history(lake, "n.t").verified) == (None, newer, newer)

    def test_writers_that_are_always_faster_are_reported(self, lake, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(publish.time, "sleep", lambda _: None)
        checked = append(lake)

        def decide(now: History) -> Move:
            append(lake)
            return advance(now, checked)

        with pytest.raises(Transient, match="Cannot move the branch"):
            move(self.no_session, lake, "n.t", decide)
        assert history(lake, "n.t").verified is None
