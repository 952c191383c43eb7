from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from recorded_rows import batch
from typed import commands, parsed

from lakeward.quality.ranges.range import decide
from lakeward.quality.ranges.snapshot_chain import Mark
from lakeward.quality.results.records import Result, by_stream, shown
from lakeward.quality.results.text import describe
from lakeward.quality.suite.configured import configure
from lakeward.quality.verdicts.verdict import Check, State, Verdict
from lakeward.registry import verifications
from lakeward.registry.schema import checks
from lakeward.registry.schema import verifications as runs
from lakeward.spec.model.suite import Suite

CHECK = Check(
    "c1", "expect_column_values_to_not_be_null", "critical", State.FAIL, {"column": "a"},
    observed="10% of 20 rows fail", rows=20, unexpected_count=2, sample=({"a": None},), why="joins break",
)  # fmt: skip


def result(line) -> Result:
    found = decide(line("append", "append"), [Mark(1, 1)])
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return Result("r1", at, "ns.t", "digest", "increment", found, Verdict.HOLD, (CHECK,), first_bad=2, verified=1)


def test_what_is_stored_is_what_is_shown(line) -> None:
    made = result(line)
    assert set(made.row()) <= set(runs.c.keys())
    assert set(made.check_rows()[0]) <= set(checks.c.keys())
    first = ["table", "run", "suite", "from_snapshot", "to_snapshot", "verdict", "spark_jobs", "duration_s", "checks"]
    contract = [*first, "first_bad_snapshot", "verified_snapshot"]
    document = made.document()
    assert list(document)[: len(contract)] == contract
    of_check = ["id", "expectation", "severity", "state", "observed", "unexpected_count", "sample"]
    assert list(document["checks"][0])[: len(of_check)] == of_check
    assert document["checks"][0] == shown(made.check_rows()[0])
    assert document["checks"][0]["observed"] == "10% of 20 rows fail"
    assert "lakeward quality release ns.t" in document["next"]
    offered = commands(document["next"])
    assert 'lakeward quality quarantine ns.t c1 --comment "rows fail c1"' in offered
    for command in offered:
        parsed(command)
    assert not {"CHECK", "WHY"} & set(document["next"].split()), "no placeholder: the worst failing check is named"


def test_a_failed_check_is_a_sentence_with_numbers() -> None:
    assert describe(CHECK) == (
        "critical check expect_column_values_to_not_be_null(a) failed: 2 of 20 rows; joins break"
    )
    broken = replace(CHECK, state=State.ERROR, error="no such column", why=None)
    assert describe(broken).endswith("could not be computed: no such column")


def test_batches_are_summed_by_stream_and_staged_ids_stand_in(line) -> None:
    history = line("append", "append", "append")
    snapshots = [replace(each, wap_id=f"s/{key}/nonce") for key, each in history.snapshots.items()]
    known = [batch(stream="s", snapshot_id=1, seq=1, start_offsets={"p": "0"}, end_offsets={"p": "5"})]
    assert by_stream(known, snapshots) == (
        {"stream": "s", "from_seq": 1, "to_seq": 3, "batches": 3, "start": {"p": "0"}, "end": None},
    )
    assert by_stream([], [replace(snapshots[0], wap_id="something else")]) == ()


def test_the_same_assertion_twice_is_two_checks() -> None:
    twice = {"type": "expect_column_to_exist", "kwargs": {"column": "id"}}
    asked = configure(
        Suite.model_validate({"table": "ns.t", "owner": "me", "expectations": [twice, twice | {"scope": "table"}]}),
        None,
        {},
    )
    assert asked[1].id == f"{asked[0].id}-2"
    assert [each.scope for each in asked] == ["increment", "table"]


def test_proofs_are_runs_that_proved_their_own_head(registry, line) -> None:
    made = result(line)
    rows = {
        "held": made.row(),
        "passed": made.row() | {"verdict": "pass", "verified_snapshot": 2},
        "own suite": made.row() | {"verdict": "pass", "verified_snapshot": 1},
    }
    for name, row in rows.items():
        verifications.record(registry, row | {"run": name}, made.check_rows())
    assert [each["run"] for each in verifications.proofs(registry, "ns.t")] == ["passed"]
    assert [shown(each) for each in verifications.checks_of(registry, "held")] == made.document()["checks"]
