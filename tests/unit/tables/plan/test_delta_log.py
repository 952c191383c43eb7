"""How far back the log of a Delta table is told to reach."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.spec.model.policy import Expire, Metadata, Policy
from lakeward.spec.model.types import Duration
from lakeward.tables.plan import History, plan
from lakeward.tables.plan.delta_log import CLEANED, KEPT, plan_log
from lakeward.tables.plan.model import Action, Clamp, Needs, NotPlanned
from lakeward.tables.plan.vacuum import LEAST_KEPT

POLICY = Policy(expire=Expire(older_than=Duration("7d")), metadata=Metadata(log_files=1000))


def needs(now, days: float | None = None) -> Needs:
    clamps = (Clamp("stream totals", "it has read up to snapshot 3", now - timedelta(days=days)),) if days else ()
    return Needs(clamps=clamps, least_kept=LEAST_KEPT)


@pytest.fixture
def logged(facts, chain):
    def make(files: int, **properties: str):
        return replace(facts(chain(3), **properties), format="delta", metadata_files=files)

    return make


def test_a_long_log_nobody_spoke_of_is_cut_to_what_files_are_kept(logged, now) -> None:
    found = plan(logged(1001), POLICY, needs(now), History(), now, ["metadata"]).action("metadata")
    assert found is not None
    assert found.properties == {KEPT: "interval 7 days"}
    assert found.why == "1,001 files in its log (limit 1000): it reaches 30 days back, files do 7 days"
    short = POLICY.model_copy(update={"expire": Expire(older_than=Duration("1h"))})
    floor = plan_log(logged(1001), short, needs(now), now)
    assert isinstance(floor, Action) and floor.properties == {KEPT: "interval 7 days"}


@pytest.mark.parametrize(("days", "wanted"), [(28.5, "interval 36 days"), (40, "interval 47 days")])
def test_a_reader_that_falls_behind_gets_a_longer_log_before_it_is_cut(logged, now, days, wanted) -> None:
    found = plan_log(logged(5), POLICY, needs(now, days), now)
    assert isinstance(found, Action)
    assert found.properties == {KEPT: wanted}
    assert "stream totals needs what is" in found.why
    weekly = plan_log(logged(5, **{KEPT: "interval 1 week"}), POLICY, needs(now, 6), now)
    assert isinstance(weekly, Action) and weekly.properties == {KEPT: "interval 13 days"}
    assert isinstance(plan_log(logged(5), POLICY, needs(now, 27.9), now), NotPlanned)


@pytest.mark.parametrize(
    ("files", "properties", "days", "why"),
    [
        (1000, {}, None, "1,000 files in its log (limit 1000)"),
        (9000, {KEPT: "interval 20 days"}, None, "9,000 files in its log, which reaches 20 days back"),
        (9000, {KEPT: "INTERVAL '1-2' YEAR TO MONTH"}, None, "is no time this reads"),
        (9000, {CLEANED: "false"}, 90, "no clean-up"),
        (9000, {}, 6, "but stream totals needs what is 6 days old"),
    ],
)
def test_what_is_not_due_says_why(logged, now, files, properties, days, why) -> None:
    found = plan_log(logged(files, **properties), POLICY, needs(now, days), now)
    assert isinstance(found, NotPlanned)
    assert why in found.why
