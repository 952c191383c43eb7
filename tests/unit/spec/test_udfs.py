"""Functions in Python that a transform's SQL calls."""

from __future__ import annotations

import pytest
from problems import texts

HEAD = """\
owner: x
source: {kafka: {topics: [t], max_offsets_per_trigger: 5}}
decode: {json: "n INT, s STRING"}
transform:
  TRANSFORM
  udfs:
    half: {python: "mine.maths:half", returns: DOUBLE}
    shout: {python: "mine.text:shout", returns: STRING, pandas: true, deterministic: false}
sink: {iceberg: {table: n.t, mode: upsert, keys: [k]}}
"""
SQL = "SELECT *, half(n) AS h, shout(s) AS k FROM source"
TEXT = "import pandas as pd\n\n\ndef shout(s: pd.Series) -> pd.Series:\n    return s.str.upper()\n"
FILES = {
    "python/mine/maths.py": "from mine.words import TWO\n\n\ndef half(n):\n    return n / TWO\n",
    "python/mine/text.py": TEXT,
    "python/mine/words.py": "TWO = 2\n",
}


def written(transform: str = f"sql: {SQL}", **more: str) -> dict[str, str]:
    return {"conf/streams/a.yaml": HEAD.replace("TRANSFORM", transform), **FILES, **more}


@pytest.mark.parametrize("transform", [f"sql: {SQL}", "file: a.sql"])
def test_a_generation_holds_every_function_of_its_sql(project, transform) -> None:
    loaded = project(written(transform, **{"conf/streams/a.sql": SQL}))
    [problem] = loaded.problems
    assert (problem.severity, problem.path) == ("warning", "sink.iceberg.keys[0]")
    assert "k is made by shout(): its value changes" in problem.message
    spec = loaded.streams["a"].spec
    assert sorted(spec.transform.code) == ["mine/maths.py", "mine/text.py", "mine/words.py"]
    assert (spec.transform.sql, spec.transform.file) == (SQL, None)
    assert spec.transform.functions == ("mine.maths:half", "mine.text:shout")
    assert type(spec).model_validate(spec.document()) == spec


BAD = [
    ({}, "half: {python: 'mine.maths:haf', returns: DOUBLE}", "a.yaml:7", "did you mean half?"),
    ({}, "half: {python: 'mine.maths:half'}", "a.yaml:7", "returns"),
    ({}, "half: {python: 'mine.maths:half', returns: DUBLE}", "a.yaml:7", "DUBLE"),
    ({}, "half: {python: 'mine.maths:half', returns: 'INT, b INT'}", "a.yaml:7", "one Spark type"),
    ({}, "upper: {python: 'mine.maths:half', returns: DOUBLE}", "a.yaml:7", "upper is the name of a built-in"),
    ({"python/mine/text.py": TEXT.replace(": pd.Series)", ")")}, "", "text.py:4:1", "needs type hints: def shout"),
    ({"python/mine/maths.py": "def half(*, n): ...\n"}, "", "maths.py:1:13", "by position"),
    ({"python/mine/maths.py": "def half(:\n"}, "", "maths.py:1:10", "this is not Python"),
]


@pytest.mark.parametrize(("files", "line", "place", "words"), BAD, ids=[each[3] for each in BAD])
def test_a_function_that_does_not_fit_is_reported_with_its_place(project, files, line, place, words) -> None:
    changed = written(**files)
    if line:
        changed["conf/streams/a.yaml"] = changed["conf/streams/a.yaml"].replace(
            'half: {python: "mine.maths:half", returns: DOUBLE}', line
        )
    errors = [each.text() for each in project(changed).problems if each.severity == "error"]
    assert any(place in each and words in each for each in errors), errors


def test_a_function_nobody_calls_or_that_is_next_to_python_is_reported(project) -> None:
    loaded = project(written("sql: SELECT *, shout(s) AS k FROM source"))
    assert [each.message for each in loaded.problems if each.path == "transform.udfs.half"] == [
        "function half is declared, but the SQL does not call it: it is imported at every start without effect; "
        "call it, or take it out"
    ]
    beside = project(written("python: mine.maths:half"))
    assert "udfs are called by SQL" in texts(beside)
