"""The one message about a table that is held: what it says, when it changes, when it is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from lakeward.quality.ranges.range import decide
from lakeward.quality.ranges.snapshot_chain import Mark
from lakeward.quality.results import incident, records
from lakeward.quality.results.json_values import masked
from lakeward.quality.results.records import Result
from lakeward.quality.verdicts.verdict import Check, State, Verdict
from lakeward.quality.verdicts.waivers import ActiveWaiver
from lakeward.registry import batches, changes, incidents, verifications
from lakeward.registry import schema as tables

ROWS = tuple({"fare": -1.5, "rider": f"r{number}", "_kafka_offset": 40 + number} for number in range(7))
FARES = Check(
    "c1", "expect_column_values_to_be_between", "critical", State.FAIL, {"column": "fare"}, why="riders are paid",
    rows=40, unexpected_count=7, sample=ROWS,
)  # fmt: skip


def held(line: Any, *checks: Check, verdict: Verdict = Verdict.HOLD, run: str = "r2") -> Result:
    """Snapshot 1 is proven; 2 to 4 landed since, of which 3 is the first bad one."""
    found = decide(line("append", "append", "append", "append"), [Mark(1, 1)])
    at = found.snapshots[1].at
    landed = ({"stream": "s", "from_seq": 2, "to_seq": 4, "batches": 3, "start": {"t": {"0": 10}}, "end": None},)
    bad = (
        {"stream": "s", "from_seq": 3, "to_seq": 3, "batches": 1, "start": {"t": {"0": 40}}, "end": {"t": {"0": 80}}},
    )
    return Result(run, at, "ns.t", "d", "increment", found, verdict, checks or (FARES,), landed, 3, bad, verified=1)


def test_a_table_that_is_not_there_is_not_the_fault_of_its_suite() -> None:
    missing = "Table ns.t does not exist: It is not in the catalog of the lake."
    assert records.after_error("ns.t", [missing]).startswith("lakeward streams list ")
    assert records.after_error("ns.t", [missing, "no column x"]).startswith("lakeward quality lint ")


def test_the_message_says_what_since_when_how_much_which_rows_and_what_to_do(line, registry: Any) -> None:
    result = held(line)
    proof = replace(result, run="r1", verdict=Verdict.PASS, found=decide(line("append"), []), verified=1)
    verifications.record(registry, proof.row(), [])
    for seq, generation in ((2, 6), (3, 7)):
        batches.record(
            registry, stream="s", query_id="q", batch_id=seq, seq=seq, generation=generation, snapshot_id=seq
        )
    changes.record(registry, "stream", "s", "upgrade", author="ada", comment="fares in cents")
    changes.record(registry, "table", "ns.t", "release", author="ada", comment="not this")
    bad_at = result.found.snapshots[1].at
    registry.execute(update(tables.changes).values(at=bad_at - timedelta(minutes=12)))
    incident.after_run(registry, result)
    text = incidents.open_ones(registry)["quality", "ns.t"].text
    assert text.splitlines() == [
        "ns.t: critical check expect_column_values_to_be_between(fare) failed: 7 of 40 rows; riders are paid",
        "readers of `verified` are still on snapshot 1, proven 2026-11-21 11:00:00 UTC; the stream continues to land",
        "since: snapshot 3 of 2026-11-21 11:00:00 UTC; stream s batch 3, offsets t/0 40 to 80",
        *(f'row: {{"fare": -1.5, "rider": "r{number}", "_kafka_offset": {40 + number}}}' for number in range(5)),
        "changed: it is the first batch of stream s by generation 7 (before: 6)",
        "changed: 12 min before: upgrade of stream s by ada: fares in cents",
        *incident.offers(result, [FARES]),
    ]
    for command in ("quarantine ns.t c1 ", "waive ns.t c1 ", "replay ns.t "):
        assert f"lakeward quality {command}" in text


def test_it_changes_when_something_else_fails_or_twice_as_many_rows_do(line, registry: Any) -> None:
    def text() -> str:
        return incidents.open_ones(registry)["quality", "ns.t"].text

    incident.after_run(registry, held(line))
    first = text()
    incident.after_run(registry, held(line, replace(FARES, unexpected_count=13)))
    assert text() == first, "a few more rows are no news"
    incident.after_run(registry, held(line, replace(FARES, unexpected_count=14)))
    assert "14 of 40 rows" in text()
    other = replace(FARES, id="c2", kwargs={"column": "tip"}, unexpected_count=3)
    incident.after_run(registry, held(line, FARES, other))
    assert "(tip)" in text()
    assert len([each for each in incidents.open_ones(registry) if each[0] == "quality"]) == 1


def test_it_is_over_when_the_table_is_published_again(line, registry: Any) -> None:
    incident.after_run(registry, held(line))
    passed = replace(held(line, verdict=Verdict.PASS), verified=1)
    incident.after_run(registry, passed)
    assert ("quality", "ns.t") in incidents.open_ones(registry), "verified did not move: nothing is over"
    incident.after_run(registry, replace(passed, verified=4, note="c1 is waived"))
    assert ("quality", "ns.t") not in incidents.open_ones(registry)
    (closed,) = [each for each in incidents.pending(registry) if each.kind == "quality"]
    assert closed.text.endswith("verified is at snapshot 4 (run r2); c1 is waived")
    incident.close(registry, "ns.t", "again")


def test_what_is_waived_or_only_warns_is_not_in_the_message(line) -> None:
    excuse = ActiveWaiver(held(line).at, "ada")
    quiet = [replace(FARES, id="w", excuse=excuse), replace(FARES, id="x", severity="warning"),
             replace(FARES, id="p", state=State.PASS)]  # fmt: skip
    assert [each.id for each in incident.holding(held(line, *quiet, FARES))] == ["c1"]


def test_a_table_that_could_not_be_checked_says_so(line) -> None:
    broken = replace(held(line, verdict=Verdict.ERROR), checks=(), note="the table is gone", verified=None)
    told = incident.lines(broken, [], None, [])
    assert told[:2] == [
        "ns.t could not be checked: the table is gone", "no snapshot is verified yet; the stream continues to land",
    ]  # fmt: skip
    assert told[-1] == "do: lakeward quality lint   then: lakeward quality run ns.t"


def test_masked_columns_stand_in_no_row_and_no_observation() -> None:
    highest = replace(FARES, observed=99, unexpected_count=None, sample=({"FARE": 9, "tip": None}, "raw"))
    (found,) = masked([highest], ["fare", "tip"])
    assert (found.observed, found.sample) == ("***", ({"FARE": "***", "tip": None}, "***"))
    counted = replace(FARES, observed="17.5% of 40 rows fail")
    assert masked([counted], ["fare"])[0].observed == "17.5% of 40 rows fail"
    assert masked([FARES], []) == [FARES]


def test_what_was_done_about_it_is_said_in_the_same_message(line, registry: Any) -> None:
    incident.add(registry, "ns.t", "policy: nobody hears this")
    incident.after_run(registry, held(line))
    for _ in range(2):
        incident.add(registry, "ns.t", "policy: 7 rows went")
    told = incidents.open_ones(registry)["quality", "ns.t"].text.splitlines()
    assert [told.count("policy: 7 rows went"), told[-3].startswith("do: "), told[-4]] == [
        1,
        True,
        "policy: 7 rows went",
    ]
    incident.after_run(registry, replace(held(line), first_bad=2, note="7 rows went to q"))
    assert "7 rows went to q" in incidents.open_ones(registry)["quality", "ns.t"].text.splitlines()


@pytest.mark.parametrize(
    "error",
    [
        "Cannot find snapshot with ID 7",
        "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file x",
        "org.apache.iceberg.exceptions.NotFoundException: Failed to open input stream for file: s3://b/m.avro",
        "Version 3 is no longer in the Delta log of /lake/ns/t; the table was replaced",
    ],
)
def test_a_run_whose_snapshot_went_is_repeated_before_the_suite_is_searched(line, error: str) -> None:
    run = "do: lakeward quality run ns.t   the table changed while it was read"
    gone = replace(FARES, state=State.ERROR, error=error)
    assert incident.offers(held(line, gone, verdict=Verdict.ERROR), [gone])[0].startswith(run)
    broken = replace(held(line, verdict=Verdict.ERROR), checks=(), note=error)
    assert incident.offers(broken, [])[0].startswith(run)
    assert broken.document()["next"].startswith(run.removeprefix("do: "))
    stays = replace(FARES, state=State.ERROR, error="no column of this name: fair", id="c2")
    both = held(line, gone, stays, verdict=Verdict.ERROR)
    assert incident.offers(both, [gone, stays])[0].startswith("do: lakeward quality lint   then: ")
    assert both.document()["next"].startswith("lakeward quality lint   then: ")
