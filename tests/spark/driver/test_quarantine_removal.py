"""Rows that fail a check go from their table into quarantine: each once, whatever dies, and back again when mended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import replay_rig
from moved_rig import Registry, deployed
from replay_rig import Died, at, die

from lakeward.cli.streams.audit import audit
from lakeward.engine.assignment import Assignment
from lakeward.operations.quarantine.operation import Quarantine
from lakeward.operations.quarantine.remove import Failing, Report, quarantine_rows
from lakeward.operations.replay.replay import replay
from lakeward.operations.request import Approval, Request
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Refused
from lakeward.quality.engine.failing_rows import condition
from lakeward.registry import changes
from lakeward.registry.engine import connect
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.model.suite import Expectation, Suite
from lakeward.telemetry import failpoints

pytestmark = [
    pytest.mark.timeout(1200),  # a bound for a hang; a busy machine may need minutes
    # Great Expectations warns of itself; elsewhere it has a process of its own.
    *(pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "UserWarning", "FutureWarning")),
]

BETWEEN = "expect_column_values_to_be_between"


def _failing(lab: Any, most: int) -> Failing:
    check = Expectation.model_validate({"type": BETWEEN, "kwargs": {"column": "n", "max_value": most}})
    return Failing(
        "small",
        f"n <= {most}",
        lambda spark: spark.table(f"lake.{lab.namespace}.t"),
        lambda rows: condition(rows, check),
    )


def _aside(lab: Any, document: dict[str, Any], most: int = 100, **more: Any) -> Report:
    return quarantine_rows(
        lab.spark, Assignment(document["id"], 1, document, ""), lab.runtime, _failing(lab, most), **more
    )


def _audit(lab: Any, document: dict[str, Any]) -> tuple[int, ...]:
    found = audit(lab.runtime, StreamSpec.model_validate(document))
    return tuple(found[name] for name in ("landed", "quarantined", "filtered", "missing", "duplicates", "beyond"))


@pytest.mark.parametrize(
    "steps",
    [
        (("before-publish", 2),),
        pytest.param(
            (("removal-copied", 1), ("before-publish", 2)),
            marks=pytest.mark.campaign(
                held_by="test_failing_rows_go_to_quarantine_once_wherever_it_dies_and_land_again_when_mended"
            ),
        ),
    ],
    ids=["a step", "each step"],
)
def test_failing_rows_go_to_quarantine_once_wherever_it_dies_and_land_again_when_mended(
    lab: Any,
    registry: Registry,
    operator: Runner,
    monkeypatch: pytest.MonkeyPatch,
    steps: tuple[tuple[str, int], ...],
) -> None:
    monkeypatch.setenv("GX_ANALYTICS_ENABLED", "false")
    topic = lab.topic()
    numbers = [1, 2, 500, None, 4, 9000, 6]
    lab.produce(topic, [{"n": number, "s": "x"} for number in numbers])
    before = lab.spec(topic, lineage="rows")
    lab.run(before, len(numbers))
    assert _audit(lab, before) == (7, 0, 0, 0, 0, 0)

    with pytest.raises(Refused, match="Cannot quarantine the rows") as refused:
        alike = Expectation.model_validate({"type": "expect_column_values_to_be_unique", "kwargs": {"column": "n"}})
        condition(lab.spark.table(f"lake.{lab.namespace}.t"), alike)
    assert "other rows decide" in refused.value.why
    proven = replace(_failing(lab, 100), proven=lambda spark: spark.table(f"lake.{lab.namespace}.t"))
    with pytest.raises(Refused, match="are not moved to quarantine") as refused:
        quarantine_rows(lab.spark, Assignment(before["id"], 1, before, ""), lab.runtime, proven)
    assert "proven rows fail the check too" in refused.value.why
    said = _aside(lab, before, dry_run=True)
    assert (said.found, said.moved, said.records, said.left, said.seq) == (2, 2, 2, [], None)
    assert _audit(lab, before) == (7, 0, 0, 0, 0, 0) and lab.rows("q") == []
    for step, nth in steps:
        with failpoints.on(step, at(nth, die)), pytest.raises(Died):
            _aside(lab, before)
        assert len(lab.rows("q")) == 2
        assert _audit(lab, before) == (7, 0, 0, 0, 0, 0), f"copies count for nothing after {step}"
    with failpoints.on("after-publish", at(2, die)), pytest.raises(Died):
        _aside(lab, before)
    assert {row["became"] for row in lab.rows("q")} == {"moving"}, "the quarantine does not say so yet"
    assert _audit(lab, before) == (5, 2, 0, 0, 0, 0), "and they count as quarantined all the same"
    again = _aside(lab, before)
    assert (again.found, again.moved) == (0, 0)
    assert {(row["became"], row["replay"], row["replayed_at"]) for row in lab.rows("q")} == {(None, None, None)}
    assert _audit(lab, before) == (5, 2, 0, 0, 0, 0)
    assert sorted(row["_kafka_offset"] for row in lab.rows()) == [0, 1, 3, 4, 6]
    kept = {row["_kafka_offset"]: (row["reason"], row["kept"], json.loads(row["raw"])["n"]) for row in lab.rows("q")}
    assert kept == {2: ("small", "record", 500), 5: ("small", "record", 9000)}

    # The stream was not fenced by any of it; mended, both land again by their records.
    lab.produce(topic, [{"n": 8, "s": "later"}])
    mended = {**before, "transform": {"sql": "SELECT CAST(n DIV 100 AS INT) AS n, * EXCEPT (n) FROM source"}}
    lab.run(before, 1)
    landed = replay(lab.spark, Assignment(mended["id"], 2, mended, ""), lab.runtime)
    assert (landed.found, landed.landed, landed.failing) == (2, 2, [])
    assert _audit(lab, mended) == (8, 0, 0, 0, 0, 0)
    assert sorted((row["_kafka_offset"], row["n"]) for row in lab.rows() if row["_kafka_offset"] in (2, 5)) == [
        (2, 5), (5, 90),
    ]  # fmt: skip

    # One of them is still wrong: it goes a second time, with another one, by the operation, which a person has to
    # approve, while their table is compacted under it.
    def compact() -> None:
        lab.spark.sql(
            f"CALL lake.system.rewrite_data_files(table => 'lake.{lab.namespace}.t', "
            "options => map('rewrite-all', 'true'))"
        )

    deployed(registry, mended, lab.wanted(mended).checkpoint)
    table = f"{lab.namespace}.t"
    kwargs = {"column": "n", "max_value": 7}
    check = {"type": BETWEEN, "kwargs": kwargs, "severity": "critical", "on_fail": "hold"}
    suite = Suite.model_validate({"table": table, "owner": "me", "expectations": [check]})
    request = Request(Quarantine.name, table, "the feed is wrong")
    operation = Quarantine(
        operator, request, suite, "column_values_to_be_between", lambda streams: nullcontext(lab.spark)
    )
    with pytest.raises(Refused, match="needs a person's approval"):
        operator.run(operation)
    with failpoints.on("removal-copied", at(1, compact)):
        done = operator.run(operation.answered("", Approval("bob", operation.plan().key)))
    (told,) = done.data["streams"]
    assert (told["found"], told["moved"], told["records"], told["left"]) == (2, 2, 2, [])
    assert _audit(lab, mended) == (6, 2, 0, 0, 0, 0)
    assert {row["_kafka_offset"]: row["became"] for row in lab.rows("q")} == {2: "landed", 5: None, 7: None}
    with registry() as connection:
        change, *_ = changes.newest(connection, "table", table)  # each attempt is recorded before it removes anything
    assert (change.change, change.comment, change.detail["moved"]) == ("quarantine", "the feed is wrong", 2)


@pytest.mark.campaign(held_by="test_failing_rows_go_to_quarantine_once_wherever_it_dies_and_land_again_when_mended")
def test_the_command_moves_rows_in_an_application_of_its_own(lab: Any, postgres: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": number, "s": "x"} for number in (1, 2, 8)])
    document = lab.spec(topic, lineage="rows")
    lab.run(document, 3)
    home = replay_rig.deployed(lab, postgres, document)
    project, table = lab.folder / "project", f"{lab.namespace}.t"
    (project / "conf" / "streams").mkdir(parents=True)
    (project / "expectations").mkdir()
    (project / "expectations" / f"{table}.yaml").write_text(
        f"table: {table}\nowner: me\nexpectations:\n"
        f"  - {{type: {BETWEEN}, kwargs: {{column: n, max_value: 7}}, severity: critical, on_fail: hold}}\n"
    )
    words = ["quality", "quarantine", table, "column_values_to_be_between", "--comment", "the feed is wrong"]
    unasked = _lakeward(home, project, *words)
    assert unasked.returncode == 4 and "needs a person's approval" in unasked.stderr
    done = _lakeward(home, project, *words, "--yes")
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["streams"]
    assert (told["found"], told["moved"], told["records"], told["left"]) == (1, 1, 1, [])
    assert _audit(lab, document) == (2, 1, 0, 0, 0, 0)
    with connect((home / "secrets" / "registry.url").read_text(), postgres.pgpass) as connection:
        (change,) = changes.newest(connection, "table", table)
    assert (change.change, change.comment, change.detail["moved"]) == ("quarantine", "the feed is wrong", 1)


def _lakeward(home: Any, project: Any, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lakeward", *words, "-o", "json", "--home", str(home), "--project", str(project)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=os.environ)
