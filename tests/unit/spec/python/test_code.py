"""Transforms in Python are read, with what they import of the project, and never run."""

from __future__ import annotations

import pytest
from problems import texts

HEAD = """\
owner: x
sources:
  flights: {kafka: {topics: [f], max_offsets_per_trigger: 5}, decode: {json: "n INT"}}
reference: {airlines: {csv: conf/airlines.csv}}
sink: {iceberg: {table: n.t}}
transform: {python: "mine.clean:flights"}
"""
CLEAN = """\
from mine import words
from .words import trim
import pyspark.sql.functions as F


def flights(flights, airlines):
    return flights
"""
FILES = {
    "conf/airlines.csv": "carrier\n",
    "python/mine/__init__.py": "",
    "python/mine/clean.py": CLEAN,
    "python/mine/words.py": "import deeper.inner\n\n\ndef trim(text):\n    return text\n",
    "python/deeper/inner.py": "LIMIT = 3\n",
    "python/mine/other.py": "import nothing_of_this_name\n",
}


def test_a_generation_holds_the_function_and_what_it_imports_and_nothing_else(project) -> None:
    loaded = project({"conf/streams/a.yaml": HEAD, **FILES})
    assert not loaded.problems, texts(loaded)
    spec = loaded.streams["a"].spec
    assert spec.transform.python == "mine.clean:flights"
    assert sorted(spec.transform.code or ()) == [
        "deeper/inner.py",
        "mine/__init__.py",
        "mine/clean.py",
        "mine/words.py",
    ]
    assert (spec.transform.code or {})["mine/clean.py"] == CLEAN
    assert type(spec).model_validate(spec.document()) == spec
    assert spec.lineage == "none", "what Python does to rows is not known"
    assert loaded.streams["a"].origins["transform.code.mine/clean.py"] == "python/mine/clean.py"
    asked = project({"conf/streams/a.yaml": HEAD + "lineage: rows\n"})
    assert asked.streams["a"].spec.lineage == "rows"


BAD = [
    ({"conf/streams/a.yaml": HEAD.replace("clean:", "claen:")}, "a.yaml:6:21", "did you mean mine.clean?"),
    ({"conf/streams/a.yaml": HEAD.replace("n:flights", "n:flight")}, "a.yaml:6:21", "did you mean flights?"),
    ({"conf/streams/a.yaml": HEAD.replace('flights"}', 'flights", code: {a: b}}')}, "a.yaml", "valid: sql, file"),
    ({"python/mine/clean.py": "def flights(:\n"}, "python/mine/clean.py:1:13", "this is not Python: invalid syntax"),
    ({"python/mine/words.py": "\ndef trim(:\n"}, "python/mine/words.py:2:10", "this is not Python"),
    (
        {"python/mine/clean.py": "def flights(\n    flights, airline): ...\n"},
        "python/mine/clean.py:2:14",
        "argument airline is neither a source nor a reference of this stream; did you mean airlines?",
    ),
    (
        {"python/mine/clean.py": "def flights(airlines): ...\n"},
        "python/mine/clean.py:1:1",
        "source flights is declared, but flights does not take it",
    ),
    ({"python/mine/clean.py": "def flights(flights, /, airlines): ...\n"}, "clean.py:1:13", "given by name"),
    ({"python/mine/clean.py": "async def flights(flights, airlines): ...\n"}, "clean.py:1:1", "write def"),
    ({"python/mine/clean.py": "import mine.nope\n" + CLEAN}, "python/mine/clean.py:1:1", "no module mine.nope"),
    (
        {"python/mine/clean.py": CLEAN + "    from mine.words import trim\n"},
        "python/mine/clean.py:8:5",
        "import mine.words at the top of the file",
    ),
    ({"python/mine/words.py": "K = 'AKIAIOSFODNN7EXAMPLE'\n\ndef trim(): ...\n"}, "words.py:1:1", "like a secret"),
    ({"python/mine/words.py": "A = '" + "x" * 1_000_001 + "'"}, "words.py:1:1", "too large"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "place", "words"), BAD, ids=[words for _, _, words in BAD])
def test_what_is_wrong_is_reported_with_its_place(project, files, place, words) -> None:
    loaded = project({"conf/streams/a.yaml": HEAD, **FILES, **files})
    errors = [each.text() for each in loaded.problems if each.severity == "error"]
    assert len(errors) == 1
    assert place in errors[0]
    assert words in errors[0]


def test_state_per_key_needs_rocksdb(project) -> None:
    stateful = {**FILES, "python/mine/words.py": "def trim(frame):\n    return frame.transformWithState()\n"}
    [problem] = project({"conf/streams/a.yaml": HEAD + "state: {provider: hdfs}\n", **stateful}).problems
    assert (problem.path, problem.line, problem.valid) == ("state.provider", 7, ("rocksdb",))
    assert not project({"conf/streams/a.yaml": HEAD + "state: {provider: hdfs}\n", **FILES}).problems


def test_what_may_be_right_is_at_most_a_warning(project) -> None:
    loaded = project({"conf/streams/a.yaml": HEAD, **FILES, "python/mine/words.py": FILES["python/mine/other.py"],
                      "python/mine/clean.py": "from mine import words\n\ndef flights(flights): ...\n"})  # fmt: skip
    assert [(each.severity, each.file, each.line) for each in loaded.problems] == [
        ("warning", "python/mine/clean.py", 3),
        ("warning", "python/mine/words.py", 1),
    ]
    for made in (
        "flights = print",
        "from os import walk as flights",
        "from os import *",
        "@print\ndef flights(x): ...",
    ):
        assert not project({"conf/streams/a.yaml": HEAD, **FILES, "python/mine/clean.py": made + "\n"}).problems, made


def test_a_module_outside_the_project_is_not_taken(project, tmp_path_factory, tmp_path) -> None:
    outside = tmp_path_factory.mktemp("outside") / "words.py"
    outside.write_text("def trim(): ...\n")
    project({"conf/streams/a.yaml": HEAD, **FILES})
    (tmp_path / "python/mine/words.py").unlink()
    (tmp_path / "python/mine/words.py").symlink_to(outside)
    [problem] = project({}).problems
    assert "is outside the project" in problem.text()
