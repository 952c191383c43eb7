from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakeward.cli.times import until_when
from lakeward.platform.errors import Refused, SpecError
from lakeward.registry import changes, maintenance
from lakeward.spec.model.types import Duration
from lakeward.tables import hold


@pytest.fixture
def table(registry):
    maintenance.register(registry, "nyc.flights", format="iceberg", location="/lake/nyc/flights", table_class=None)
    return "nyc.flights"


def known(registry):
    return maintenance.all_tables(registry)["nyc.flights"]


def test_a_hold_says_until_when_and_is_a_change(registry, table):
    told = hold.hold(registry, table, Duration("2h"), author="ann", comment="load test")
    held = known(registry).hold_until
    assert f"until {held:%Y-%m-%d %H:%M} UTC" in told
    assert abs(held - datetime.now(UTC) - timedelta(hours=2)) < timedelta(minutes=5)
    [change] = changes.newest(registry, "table", table)
    assert (change.change, change.author, change.comment) == ("hold", "ann", "load test")


def test_a_failed_verification_is_lifted_with_a_word_only(registry, table):
    maintenance.hold_expiry(registry, table, "row count differs")
    with pytest.raises(SpecError, match="row count differs"):
        hold.lift(registry, table, author="ann", comment=" ")
    assert known(registry).expiry_hold == "row count differs"
    assert "row count differs" in hold.lift(registry, table, author="ann", comment="counted by hand: equal")
    assert known(registry).expiry_hold is None


def test_what_cannot_be_held_or_lifted_says_why(registry, table):
    with pytest.raises(Refused, match="has no hold to lift"):
        hold.lift(registry, table, author="ann", comment="")
    with pytest.raises(SpecError, match="Did you mean nyc"):
        hold.hold(registry, "nyc.flihts", Duration("2h"), author="ann", comment="")
    with pytest.raises(SpecError, match="Cannot hold"):
        hold.hold(registry, table, datetime(2020, 1, 1, tzinfo=UTC), author="ann", comment="")


@pytest.mark.parametrize(("until", "for_"), [(None, None), ("2026-11-21", "2h"), ("noon", None), (None, "soon")])
def test_a_time_nobody_can_read_is_refused(until, for_):
    with pytest.raises(SpecError) as refused:
        until_when(until, for_)
    assert refused.value.next.endswith("--for 2h")  # a time in an example would be over one day


def test_a_time_without_a_zone_is_utc():
    assert until_when("2026-11-21T06:00:00", None) == datetime(2026, 11, 21, 6, tzinfo=UTC)
