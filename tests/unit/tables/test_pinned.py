"""Who keeps history of a table, how much, and what ends it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakeward.registry import maintenance
from lakeward.spec.model.policy import Expire
from lakeward.tables import pinned
from lakeward.tables.facts import Ref
from lakeward.tables.plan.expire import LEAST
from lakeward.tables.plan.model import Needs, SnapshotPin

POLICY = Expire.model_validate({"older_than": "10m", "min_snapshots": 1})
SAFE = Needs()


def held(facts: Any, now: Any, *pins: SnapshotPin) -> list[tuple[str, int, int | None]]:
    found = pinned.documents(facts, POLICY, replace(SAFE, clamps=pins), now)
    return [(pin["who"], pin["snapshots"], pin["bytes"]) for pin in found]


def test_a_pin_keeps_what_the_policy_alone_would_expire_and_the_files_removed_since(facts, chain, now):
    table = facts(chain(20, **{"removed-files-size": "100"}))  # 1..20, the newest a minute old: ten are too old
    slow = SnapshotPin("stream slow", "it reads", chain(20)[2].at, "reader", "slow")
    young = SnapshotPin("staged batches", "young", now - timedelta(minutes=1), "batch")
    assert held(table, now, young, slow) == [("stream slow", 8, 800), ("staged batches", 0, 0)]


def test_what_the_table_s_own_property_keeps_is_no_pin_s(facts, chain, now):
    slow = SnapshotPin("stream slow", "it reads", chain(20)[2].at, "reader", "slow")
    assert held(facts(chain(20), **{LEAST: "15"}), now, slow) == [("stream slow", 3, 0)]
    assert held(facts(chain(20), **{LEAST: "many"}), now, slow) == [("stream slow", 8, 0)]


def test_tags_and_branches_keep_their_own_and_main_is_none(facts, chain, now):
    refs = {
        "eod": Ref("tag", 3), "verified": Ref("branch", 5), "left": Ref("tag", 4, expires_after_ms=1),
        "young": Ref("tag", 19),
    }  # fmt: skip
    found = {pin["who"]: pin for pin in pinned.documents(facts(chain(20), refs=refs), POLICY, SAFE, now)}
    assert {who: pin["snapshots"] for who, pin in found.items()} == {
        "tag eod": 1, "branch verified": 1, "tag young": 0,
    }  # fmt: skip
    assert found["tag eod"]["next"] == "lakeward sql --write 'ALTER TABLE lake.nyc.flights DROP TAG `eod`'"
    assert found["branch verified"]["next"].startswith("lakeward quality show nyc.flights")
    elsewhere = replace(facts(chain(20), refs={"eod": Ref("tag", 3)}), catalog="prod")
    (pin,) = pinned.documents(elsewhere, POLICY, SAFE, now)
    assert pin["next"] == "lakeward sql --write 'ALTER TABLE prod.nyc.flights DROP TAG `eod`'"


def test_a_tag_that_ends_by_itself_says_when(facts, chain, now):
    day = 86_400_000
    (pin,) = pinned.documents(facts(chain(20), refs={"t": Ref("tag", 20, expires_after_ms=day)}), POLICY, SAFE, now)
    assert pin["next"] == "it ends by itself at 2026-03-02 11:59:00 UTC"


def test_bytes_are_not_known_where_commits_do_not_record_them(facts, chain, now):
    table = replace(facts(chain(20)), format="delta")
    slow = SnapshotPin("stream slow", "it reads", chain(20)[2].at, "reader", "slow")
    assert held(table, now, slow) == [("stream slow", 8, None)]


def test_what_keeps_nothing_is_not_stored_so_an_observation_without_news_writes_nothing(facts, chain, now):
    slow = SnapshotPin("stream slow", "it reads", chain(20)[2].at, "reader", "slow")
    young = SnapshotPin("staged batches", "young", now, "batch")
    found = pinned.documents(facts(chain(20)), POLICY, replace(SAFE, clamps=(slow, young)), now)
    (stored,) = pinned.stored(found)
    assert stored["who"] == "stream slow" and stored["since"] == "2026-03-01T11:42:00Z"


@pytest.mark.parametrize("table", ["nyc.pinned"])
def test_pins_are_kept_with_the_newest_facts_and_written_when_they_changed(registry, table):
    maintenance.register(registry, table, format="iceberg", location="/w", table_class=None)
    maintenance.record_facts(registry, table, 1, {"files": 4, "profile": {"partitions": []}})

    def version() -> tuple[object, object]:
        newest = maintenance.newest_figures(registry)[table].facts
        row = registry.exec_driver_sql("SELECT ctid FROM facts WHERE \"table\" = 'nyc.pinned'").scalar_one()
        return newest, row

    maintenance.record_pins(registry, table, [{"who": "stream slow"}])
    first, place = version()
    assert first == {"files": 4, "pins": [{"who": "stream slow"}]}
    maintenance.record_pins(registry, table, [{"who": "stream slow"}])
    assert version() == (first, place), "the row was written although nothing had changed"
    maintenance.record_pins(registry, table, [])
    assert version()[0] == {"files": 4, "pins": []}
    assert maintenance.figures_over_time(registry, table, 5)[0].facts == {"files": 4}
