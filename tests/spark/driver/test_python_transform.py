"""Transforms in Python: of the generation's own code, row by row or with state, in the driver and on its workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.python.code import summary
from lakeward.engine import analysis
from lakeward.operations import preview
from lakeward.platform.errors import Poison, SpecError
from lakeward.platform.failures import FailureClass, judge
from lakeward.spec.model.stream import StreamSpec

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

WORDS = """\
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Scale:
    by: int

SCALE = Scale(BY)
calls = []

def half(n):
    return SCALE.by * 60 / n
"""
CLEAN = """\
import mine.words
from . import words as same
from pyspark.sql import functions as F

def run(source):
    assert mine.words is same
    same.calls.append(source.isStreaming)
    half = F.udf(mine.words.half, "double")
    return source.where("n IS NOT NULL").withColumn("half", half("n"))

def run_sql(source):
    spark = source.sparkSession
    spark.udf.register("half", mine.words.half, "double")
    return spark.sql("SELECT *, half(n) AS half FROM source WHERE n IS NOT NULL")

def twice(source):
    def both(frames):
        for each in frames:
            yield each
            yield each
    return source.mapInPandas(both, source.schema)

def drop(source):
    return source.select("n")

def late(source):
    if not source.isStreaming:
        source.select("nope")
    return source.withColumn("half", F.lit(1.0))

def wrong(source):
    return source.select(no_such_column())

def no_such_column():
    return F.col("nope") + undefined

def nothing(source):
    source.count
"""


def code(by: int = 1) -> dict[str, str]:
    return {"mine/__init__.py": "", "mine/clean.py": CLEAN, "mine/words.py": WORDS.replace("BY", str(by))}


def into(lab: Any, topic: str, name: str = "run", by: int = 1, **more: Any) -> dict[str, Any]:
    transform = {"python": f"mine.clean:{name}", "code": code(by)}
    return lab.spec(topic, transform=transform, **{"lineage": "rows", **more})


@pytest.fixture(autouse=True)
def another_module_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the working tree, and where Python looks first, is not what was deployed."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text("raise RuntimeError('the working tree was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.campaign(held_by="test_sql_calls_functions_of_the_generation_by_value_and_by_series")
def test_two_generations_run_side_by_side_each_its_own_code(lab: Any) -> None:
    first, second = lab.topic(), lab.topic()
    one = into(lab, first)
    other = {**into(lab, second, "run_sql", by=10), "id": f"o_{lab.namespace}"}
    other["sink"] = {"iceberg": {"table": f"{lab.namespace}.u"}}
    for topic in (first, second):
        lab.produce(topic, [{"n": 1}, {"n": None}, {"n": 3}, "junk"])
    running = [lab.start(one), lab.start(other)]
    lab.until("both", lambda: sum(each.consumed for each in lab.done) >= 8)
    assert all(each.stop(60) for each in running)
    assert sorted((row["n"], row["half"]) for row in lab.rows()) == [(1, 60.0), (3, 20.0)]
    assert sorted((row["n"], row["half"]) for row in lab.rows("u")) == [(1, 600.0), (3, 200.0)]
    assert not any(each.function.flow.stateful for each in running), "row by row"
    assert len(lab.rows("q")) == 2, "records that cannot be decoded are put aside before Python sees them"
    [row] = [each for each in lab.done if each.stream == one["id"] and each.consumed]
    assert (row.consumed, row.outcome.landed, row.quarantined) == (4, 2, 1)


def test_what_fails_on_a_record_is_poison_and_shows_the_line_of_the_function(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 0}])
    failure = lab.fail(into(lab, topic))
    assert isinstance(failure, Poison)
    assert judge(error=failure).failure_class is FailureClass.POISON
    assert failure.why.splitlines() == [
        "ZeroDivisionError: division by zero",
        "  python/mine/words.py:12 in half: return SCALE.by * 60 / n",
    ]
    late = lab.fail({**into(lab, topic, "late"), "id": f"l_{lab.namespace}"})
    assert isinstance(late, Poison)
    assert "python/mine/clean.py:28 in late" in late.why


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong", "python/mine/clean.py:35 in no_such_column"),
        ("nothing", "it returns NoneType"),
        ("absent", "has no function absent"),
        ("drop", "it drops position columns"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_anything_runs(lab: Any, name: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        lab.start(into(lab, lab.topic(), name))
    assert words in refused.value.why
    assert "Traceback" not in str(refused.value)


@pytest.mark.campaign(held_by="tests/spark/driver/test_refusals.py::test_a_join_that_makes_two_rows_of_one_record")
def test_rows_made_twice_of_one_record_break_the_lineage_that_was_asked_for(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}])
    failure = lab.fail(into(lab, topic, "twice"))
    assert isinstance(failure, SpecError)
    assert "several rows for one record" in failure.what
    lab.started.clear()
    lab.run({**into(lab, topic, "twice", lineage="none"), "id": f"n_{lab.namespace}"}, 1)
    assert [row["n"] for row in lab.rows()] == [1, 1]


@pytest.mark.campaign(held_by="test_sql_calls_functions_of_the_generation_by_value_and_by_series")
def test_a_preview_runs_it_and_says_where_it_fails(lab: Any) -> None:
    spec = StreamSpec.model_validate(into(lab, "t"))
    record = (None, b'{"n": 3}', None, "t", 0, 0, None)
    found = preview.of(lab.spark.newSession(), spec, lab.runtime, {"source": [record]}, 5)
    assert [row["half"] for row in found.rows] == [20.0]
    zero = (None, b'{"n": 0}', None, "t", 0, 0, None)
    with pytest.raises(SpecError, match="does not work on this sample") as failed:
        preview.of(lab.spark.newSession(), spec, lab.runtime, {"source": [zero]}, 5)
    assert "python/mine/words.py:12 in half" in failed.value.why


def test_sql_calls_functions_of_the_generation_by_value_and_by_series(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}, {"n": None}, {"n": 3}])
    udfs = {
        "half": {"python": "mine.words:half", "returns": "DOUBLE"},
        "tenfold": {"python": "mine.series:tenfold", "returns": "BIGINT", "pandas": True, "deterministic": False},
    }
    series = "import pandas as pd\n\ndef tenfold(n: pd.Series) -> pd.Series:\n    return n * 10\n"
    transform = {
        "sql": "SELECT *, half(n) AS half, tenfold(n) AS tens FROM source WHERE n IS NOT NULL",
        "udfs": udfs,
        "code": {**code(), "mine/series.py": series},
    }
    document = lab.spec(topic, transform=transform, rules={"small": "half(n) < 100"})
    running = lab.run(document, 3)
    assert sorted((row["n"], row["half"], row["tens"]) for row in lab.rows()) == [(1, 60.0, 10), (3, 20.0, 30)]
    assert not running.function.flow.stateful, "row by row"
    spec = StreamSpec.model_validate(document)
    assert list(analysis.findings(lab.spark, spec)) == []
    wrong = {**document, "transform": {**transform, "sql": "SELECT *, halve(n) AS half FROM source"}}
    [found] = analysis.findings(lab.spark, StreamSpec.model_validate(wrong))
    assert "halve" in found.message
    absent = {**transform, "udfs": {"half": {"python": "mine.words:haf", "returns": "DOUBLE"}}}
    [found] = analysis.findings(lab.spark, StreamSpec.model_validate({**document, "transform": absent}))
    assert (found.path, "has no function haf" in found.message) == (("transform", "udfs"), True)
    zero = (None, b'{"n": 0}', None, "t", 0, 0, None)
    with pytest.raises(SpecError, match="does not work on this sample") as failed:
        preview.of(lab.spark.newSession(), spec, lab.runtime, {"source": [zero]}, 5)
    assert "python/mine/words.py:12 in half" in failed.value.why
    lab.produce(topic, [{"n": 0}])
    failure = lab.fail(document)
    assert isinstance(failure, Poison)
    assert "python/mine/words.py:12 in half" in failure.why


def test_a_file_that_is_no_python_is_reported_by_its_line() -> None:
    try:
        compile("a = (\n", "_lakeward_0/mine/x.py", "exec")
    except SyntaxError as error:
        assert "python/mine/x.py:1" in summary(error)
