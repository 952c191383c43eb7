"""Which failures are excused, which check a person means, and that a waiver's end is told once."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from lakeward.platform.errors import Refused, SpecError
from lakeward.quality.ranges.range import Kind, Range
from lakeward.quality.results.records import Result
from lakeward.quality.suite.configured import configure
from lakeward.quality.verdicts.verdict import Check, State, Verdict
from lakeward.quality.verdicts.waive import close_ended_waivers, report_ended, unwaive, waive
from lakeward.quality.verdicts.waivers import choose, excuses
from lakeward.registry import changes, events, incidents, verifications, waivers
from lakeward.registry.schema import waivers as rows
from lakeward.registry.waivers import Waiver
from lakeward.spec.model.suite import Suite
from lakeward.spec.model.types import Duration

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NULLS = "expect_column_values_to_not_be_null"


def suite(*columns: str, waive_until: date | None = None) -> Suite:
    checks = [{"type": NULLS, "kwargs": {"column": each}, "waive_until": waive_until} for each in columns]
    return Suite.model_validate({"table": "ns.t", "owner": "me", "expectations": checks})


def test_a_suites_waiver_holds_through_its_day() -> None:
    until = suite("a", waive_until=date(2026, 11, 21))
    assert [each.author for each in excuses(until, [], NOW).values()] == ["expectations/ns.t.yaml"]
    assert excuses(until, [], NOW + timedelta(hours=11, minutes=59))
    assert not excuses(until, [], NOW + timedelta(hours=12))


def test_of_two_excuses_the_longer_one_counts() -> None:
    both = suite("a", "b", waive_until=date(2026, 11, 21))
    a, b = (each.id for each in configure(both, None, {}))
    short, long = NOW + timedelta(minutes=1), NOW + timedelta(days=9)
    recorded = [
        Waiver(1, "ns.t", a, "x", "ada", "shorter", NOW, short),
        Waiver(2, "ns.t", b, "x", "ada", "longer", NOW, long),
        Waiver(3, "ns.t", "gone", "x", "ada", "of a check the suite has no more", NOW, long),
    ]
    found = excuses(both, recorded, NOW)
    assert {key: each.reason for key, each in found.items()} == {a: "", b: "longer"}
    assert found[b].text == "waived until 2026-11-30 12:00 UTC by ada: longer"


@pytest.mark.parametrize("wanted", ["column_values_to_not_be_null(a)", f"{NULLS}(a)", "{id}", "{short}"])
def test_a_check_is_found_by_its_id_and_by_its_name(wanted: str) -> None:
    id_ = configure(suite("a"), None, {})[0].id
    assert choose(suite("a", "b"), wanted.format(id=id_, short=id_[:5]))[0] == id_


def test_a_check_that_is_none_or_two_is_refused_with_those_there_are() -> None:
    with pytest.raises(SpecError, match="no check") as none:
        choose(suite("a", "b"), "column_values_to_not_be_null(c)")
    assert "Did you mean column_values_to_not_be_null(" in none.value.why
    with pytest.raises(SpecError, match="more than one"):
        choose(suite("a", "b"), NULLS)


def test_a_waiver_is_kept_with_its_reason_and_ended_once(registry: Any) -> None:
    made = waive(registry, "ns.t", "c1", "nulls(a)", Duration("2h"), author="ada", reason=" known ")
    assert (made.reason, made.until - made.at) == ("known", timedelta(hours=2))
    again = waive(registry, "ns.t", "c1", "nulls(a)", Duration("4h"), author="bob", reason="longer")
    assert [each.id for each in waivers.in_force(registry, "ns.t")] == [again.id], "the newer one alone counts"
    (change, _) = changes.newest(registry, "table", "ns.t")
    assert (change.change, change.comment, change.detail["check"]) == ("waive", "longer", "c1")
    unwaive(registry, "ns.t", "c1", author="bob", comment="mended")
    assert waivers.in_force(registry) == []
    with pytest.raises(Refused, match="has no waiver"):
        unwaive(registry, "ns.t", "c1", author="bob", comment="again")


def test_a_waiver_until_a_time_that_is_over_is_refused(registry: Any) -> None:
    with pytest.raises(SpecError, match="Cannot waive"):
        waive(registry, "ns.t", "c1", "nulls(a)", NOW - timedelta(days=9000), author="ada", reason="why")
    assert waivers.in_force(registry) == []


def test_the_end_of_a_waiver_is_reported_once_and_is_an_incident_where_the_check_fails(registry: Any) -> None:
    for check in ("bad", "good"):
        waive(registry, "ns.t", check, f"nulls({check})", Duration("1h"), author="ada", reason="known")
    assert report_ended(registry) == []
    empty = Range("ns.t", Kind.EMPTY, None, None, (), "")
    failed = Check("bad", NULLS, "critical", State.FAIL, unexpected_count=12)
    run = Result("r1", NOW, "ns.t", "d", "increment", empty, Verdict.WARN, (failed,))
    verifications.record(registry, run.row(), run.check_rows())
    registry.execute(update(rows).values(until=rows.c.at))
    told = report_ended(registry)
    assert len(told) == 2 and "by ada (known) has ended; the check failed in the newest run (12 rows" in told[0]
    assert report_ended(registry) == []
    assert [each.kind for each in events.newest(registry, "table", "ns.t")] == ["waive"] * 2 + ["waiver_over"] * 2
    (subject,) = [subject for kind, subject in incidents.open_ones(registry) if kind == "waiver"]
    assert subject == "ns.t/bad"
    close_ended_waivers(registry, "ns.t", [Check("bad", NULLS, "critical", State.SKIPPED)])
    assert ("waiver", subject) in incidents.open_ones(registry)
    close_ended_waivers(registry, "ns.t", [Check("bad", NULLS, "critical", State.FAIL)])
    assert ("waiver", subject) not in incidents.open_ones(registry)


def test_the_incident_about_an_ended_waiver_ends_with_its_check(registry: Any) -> None:
    for subject in ("ns.t/c1", "ns.t/c2", "ns.t2/c1"):
        incidents.opened(registry, "waiver", subject, "over")
    other = [Check("c1", NULLS, "critical", State.SKIPPED)]
    close_ended_waivers(registry, "ns.t", other)  # by the suite of one run, whose checks are others
    close_ended_waivers(registry, "ns.t", [], whole=True)  # no check could be run
    assert len(incidents.open_ones(registry)) == 3
    close_ended_waivers(registry, "ns.t", other, whole=True)
    assert {subject for _, subject in incidents.open_ones(registry)} == {"ns.t/c1", "ns.t2/c1"}


def test_a_run_of_another_table_whose_name_begins_alike_ends_no_incident(registry: Any) -> None:
    """A table's name may have a slash, as the subject of the incident has one before the check."""
    incidents.opened(registry, "waiver", "ns.t/other/c1", "over")
    close_ended_waivers(registry, "ns.t", [Check("c2", NULLS, "critical", State.SKIPPED)], whole=True)
    assert ("waiver", "ns.t/other/c1") in incidents.open_ones(registry)
    close_ended_waivers(registry, "ns.t/other", [Check("c2", NULLS, "critical", State.SKIPPED)], whole=True)
    assert ("waiver", "ns.t/other/c1") not in incidents.open_ones(registry)
