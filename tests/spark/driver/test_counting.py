"""Rows counted while they land: what a check will say of them, once a batch, and never at the cost of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakeward.engine.sinks.counting import Counting
from lakeward.quality.advisory.counted import counters
from lakeward.spec.model.suite import Suite
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

NULLS, BETWEEN = "expect_column_values_to_not_be_null", "expect_column_values_to_be_between"


@pytest.fixture
def told(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Has every stream of the lab counted by the expectations it is called with; gives what a person is told."""
    said: list[str] = []
    counting = Counting(said.append)

    def tell(*expectations: dict[str, Any]) -> list[str]:
        made = counters(Suite.model_validate({"table": "a.t", "owner": "me", "expectations": expectations}))
        counting.use((made.digest, made.text))
        return said

    starter = lab.starter
    monkeypatch.setattr(lab, "starter", lambda: replace(starter(), counting=lambda stream, table: counting))
    return tell


def _id(kind: str, **kwargs: Any) -> str:
    check = {"type": kind, "kwargs": kwargs}
    return Suite.model_validate({"table": "a.t", "owner": "me", "expectations": [check]}).expectations[0].id


STRICT, SANE = _id(NULLS, column="s"), _id(BETWEEN, column="n", min_value=0, max_value=50)
FINE = (
    {"type": NULLS, "kwargs": {"column": "s"}},
    {"type": BETWEEN, "kwargs": {"column": "n", "min_value": 0, "max_value": 50}},
)


class Died(RuntimeError):
    pass


def _die() -> None:
    raise Died


@pytest.mark.parametrize("sink", ["iceberg", "delta"])
def test_the_counts_of_a_batch_are_those_of_a_check_and_what_cannot_be_computed_fails_nothing(
    lab: Any, told: Any, sink: str
) -> None:
    only = {"condition_parser": "spark"}
    cast, division = {"row_condition": "int(s) > 0", **only}, {"row_condition": "1 / (n - 1) > 0", **only}
    pattern = "expect_column_values_to_match_regex"
    said = told(
        *FINE,
        {"type": NULLS, "kwargs": {"column": "n", "row_condition": "s = 'x'", **only}},
        {"type": NULLS, "kwargs": {"column": "n", **cast}},
        {"type": NULLS, "kwargs": {"column": "n", **division}},
        {"type": pattern, "kwargs": {"column": "s", "regex": "("}},
        {"type": BETWEEN, "kwargs": {"column": "n", "max_value": 5, "mostly": 0.9}},
        {"type": NULLS, "kwargs": {"column": "gone"}},
        {"type": BETWEEN, "kwargs": {"column": "s", "min_value": 0}},
        {"type": NULLS, "kwargs": {"column": "n", "row_condition": "n IN (SELECT 1)", **only}},
    )
    topic = lab.topic()
    table = {"table": f"{lab.namespace}.t", "partition_by": ["s"]}
    document = lab.spec(topic, rules={"small": "n < 900"}, sink={sink: table})
    lab.produce(topic, [{"n": 1, "s": "x"}, {"n": 99}, {"n": -1, "s": "x"}, {"n": 901}, "junk", {"s": "x"}, {"n": 2}])
    lab.run(document, 7)
    lab.produce(topic, [{"n": 3, "s": "y"}])
    lab.run(document, 1)

    first, second = (each.outcome for each in lab.done if each.outcome.landed)
    assert first.landed == 5
    assert first.advisory == {
        STRICT: (2, 5),
        SANE: (2, 5),
        _id(NULLS, column="n", row_condition="s = 'x'", **only): (1, 5),
        _id(BETWEEN, column="n", max_value=5, mostly=0.9): (1, 4),
    }
    assert second.advisory == {}
    assert [text.split(":")[0] for text in said] == [
        "rows are not counted by column_values_to_not_be_null(gone)",
        "rows are not counted by column_values_to_be_between(s)",
        "rows are not counted by column_values_to_not_be_null(n)",
    ], "told once, not with each batch"


def test_a_batch_that_comes_again_is_not_counted_again_nor_one_after_a_failure(lab: Any, told: Any) -> None:
    said = told(*FINE)
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}, {"n": 2, "s": "x"}])
    document = lab.spec(topic)
    with failpoints.on("before-return", _die):  # it has landed, and nobody was told
        lab.fail(document)
    lab.started.clear()
    lab.run(document, 2)
    assert (lab.done[-1].outcome.already, lab.done[-1].outcome.advisory) == (True, None)
    assert said == []

    lab.produce(topic, [{"n": 3}])
    with failpoints.on("after-stage", _die):
        lab.fail(document)
    lab.started.clear()
    lab.run(document, 1)
    assert said == ["rows are not counted: a batch failed while they were; tried again in 60 min"]
    assert (lab.done[-1].outcome.landed, lab.done[-1].outcome.advisory) == (1, None)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3]


def test_rows_of_state_are_counted_and_rows_that_change_others_are_not(lab: Any, told: Any) -> None:
    told(*FINE)
    topic = lab.topic()
    lab.produce(topic, [{"n": 1, "s": "x"}, {"n": 99}, {"n": 99}])
    unique = {"kafka": {"topics": [topic], "max_offsets_per_trigger": 1000}, "decode": {"json": "n INT, s STRING"}}
    unique["deduplicate"] = {"keys": ["n"], "within_watermark": False}
    stateful = {**lab.spec(topic), "sources": {"source": unique}, "lineage": "none"}
    for key in ("source", "decode"):
        del stateful[key]
    lab.run(stateful, 3)
    [landed] = (each.outcome for each in lab.done if each.outcome.landed)
    assert (landed.landed, landed.advisory) == (2, {STRICT: (1, 2), SANE: (1, 2)})

    lab.done.clear()
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}, {"n": 2}])
    upsert = lab.spec(topic, sink={"iceberg": {"table": f"{lab.namespace}.u", "mode": "upsert", "keys": ["n"]}})
    lab.run({**upsert, "id": f"{upsert['id']}_u"}, 2)
    assert {each.outcome.advisory is None for each in lab.done} == {True}


def test_counts_of_other_rows_than_landed_are_no_counts(spark: Any) -> None:
    made = counters(Suite.model_validate({"table": "a.t", "owner": "me", "expectations": FINE}))
    counting = Counting()
    rows = spark.sql("SELECT int(id) n, string(null) s FROM range(3)")
    assert counting.watch(rows) is None, "nobody said what is counted by"
    counting.use((made.digest, made.text))
    watched = counting.watch(rows)
    assert watched.counts(3) is None, "nothing was written yet"
    watched.rows.write.format("noop").mode("overwrite").save()
    assert watched.counts(3) == {STRICT: (3, 3)}
    assert watched.counts(2) is None, "a task that ran again counted a row twice"
