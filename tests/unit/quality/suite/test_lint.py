"""Lint through the command, once for all cases: importing Great Expectations costs seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakeward.quality.suite.propose import ColumnProfile, TableProfile, propose
from lakeward.quality.suite.yaml_text import suite_text

SUITE = """\
table: ns.t
owner: me
expectations:
  - {type: expect_column_values_to_not_be_nul, kwargs: {column: carrier}}
  - type: expect_column_values_to_be_between
    kwargs: {column: a, min_valu: 1, min_value: 5, max_value: 2, mostly: 3}
  - type: expect_column_values_to_be_in_set
    kwargs: {value_set: 3, severity: info}
    on_fail: quarantine
    waive_until: 2025-01-01
  - {type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: "SELECT 1"}, sevrity: info}
  - {type: expect_column_values_to_be_between, kwargs: {column: a}}
  - {type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: "SELEC * FROM {batch}"}}
  - {type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: "DELETE FROM {batch}"}}
  - {type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: "SELECT * FROM {batch}; DROP TABLE x"}}
  - type: unexpected_rows_expectation
    kwargs:
      unexpected_rows_query: |
        SELECT * FROM {batch}
        WHERE a > {foo}
  - {type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: "SELECT * FROM {batch} WHERE a = '{{}}' AND"}}
  - {type: expect_column_values_to_match_regex, kwargs: {column: a, regex: "("}}
  - {type: expect_column_values_to_match_regex_list, kwargs: {column: a, regex_list: ["\\\\p{Alpha}+", "["]}}
  - {type: expect_volume_as_usual, kwargs: {only: few, limits: 3}}
  - type: expect_totals_to_equal_other_table
    kwargs: {total: "sum(", other: n.t, other_total: count(1), by: {a: a}}
  - {type: expect_keys_to_be_in_reference, kwargs: {columns: [a, b], reference: n.t, keys: [a]}}
  - {type: expect_volume_as_usul}
  - {type: expect_column_values_to_match_like_pattern, kwargs: {column: a, like_pattern: "A%"}}
  - {type: expect_column_values_to_be_of_type, kwargs: {column: a, type_: "decimal(10,2)"}}
  - {type: expect_column_values_to_be_in_type_list, kwargs: {column: a, type_list: [int, int64]}}
  - {type: expect_column_values_to_be_in_type_list, kwargs: {column: a, type_list: [int, IntegerType]}}
  - {type: expect_column_values_to_match_json_schema, kwargs: {column: a, json_schema: {type: [objekt]}}}
  - {type: expect_column_values_to_match_regex, kwargs: {column: a, regex: "^[[:alpha:]]$"}}
"""
GOOD = """\
table: ns.good
owner: me
expectations:
  - {type: expect_column_to_exist, kwargs: {column: id}}
  - type: unexpected_rows_expectation
    kwargs: {unexpected_rows_query: "WITH b AS (SELECT * FROM {batch}) SELECT * FROM b WHERE x RLIKE '[0-9]{{3}}';"}
"""


ASIDE = """\
table: n.t
owner: me
expectations:
  - {type: expect_column_values_to_not_be_null, kwargs: {column: a}, on_fail: quarantine}
  - {type: expect_column_mean_to_be_between, kwargs: {column: a, max_value: 3}, on_fail: quarantine}
  - {type: expect_column_values_to_be_unique, kwargs: {column: a}, on_fail: quarantine}
  - {type: expect_column_values_to_be_in_set, kwargs: {column: a, value_set: [1], row_condition: a > 1,
     condition_parser: spark}, on_fail: quarantine}
  - {type: expect_volume_as_usual, on_fail: quarantine}
  - {type: expect_column_values_to_not_be_null, kwargs: {column: b}, on_fail: quarantine, scope: table}
"""
STREAM = """\
owner: me
source: {kafka: {topics: [t], max_offsets_per_trigger: 9}}
decode: {json: "a INT, b INT"}
transform: {sql: SELECT * FROM source}
sink: {iceberg: {table: n.t}}
trigger: {every: 1s}
"""


SERVE = """\
import contextlib, io, json, sys
from lakeward.cli.app import main
for line in sys.stdin:
    out, code = io.StringIO(), 0
    with contextlib.redirect_stdout(out):
        try:
            main(["quality", "lint", "-o", "json", "--project", line.strip()])
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps([code, out.getvalue()]), flush=True)
"""
"""The command, once for each line of its input, in one process: it imports Great Expectations once."""


@dataclass(frozen=True)
class Answer:
    """What the command printed, and its exit code."""

    returncode: int
    stdout: str


@pytest.fixture(scope="module")
def lint() -> Iterator[Callable[[Path], Answer]]:
    """Lints a project."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as at:
        assert at.stdin is not None and at.stdout is not None
        lines, answers = at.stdin, at.stdout

        def run(project: Path) -> Answer:
            lines.write(f"{project}\n")
            lines.flush()
            code, out = json.loads(answers.readline())
            return Answer(code, out)

        yield run
        lines.close()


def _proposed() -> str:
    """Every kind of expectation `quality profile` may propose."""
    columns = (
        ColumnProfile("n", "number", nulls=3, low=-1.5, high=2),
        ColumnProfile("odd", "text", nulls=0, shortest=0, longest=3, values=("", "? ", "NO")),
        ColumnProfile("code", "text", nulls=0, shortest=3, longest=3, unique=True),
    )
    made = propose(TableProfile("ns.proposed", 1000, 1000, 1, columns))
    assert len({each["type"] for each in made.expectations}) == 6
    return suite_text({"table": "ns.proposed", "owner": "me", "expectations": made.expectations}, [], made.comments)


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory, lint: Callable[[Path], Answer]) -> dict[str, dict[str, Any]]:
    """Problems of `SUITE` by path."""
    root = tmp_path_factory.mktemp("project")
    (root / "conf" / "streams").mkdir(parents=True)
    (root / "expectations").mkdir()
    (root / "expectations" / "ns.t.yaml").write_text(SUITE)
    (root / "expectations" / "ns.good.yaml").write_text(GOOD)
    (root / "expectations" / "ns.proposed.yaml").write_text(_proposed())
    (root / "expectations" / ".#ns.t.yaml").symlink_to("me@here.1234")  # an editor's lock
    done = lint(root)
    assert done.returncode == 2, done.stdout
    answer = json.loads(done.stdout)
    assert answer["ok"] is False
    assert {each["file"] for each in answer["problems"]} == {"expectations/ns.t.yaml"}
    return {each["path"]: each for each in answer["problems"]}


@pytest.mark.parametrize(
    ("path", "place", "words"),
    [
        ("expectations[0].type", (4, 12), "no such expectation"),
        ("expectations[1].kwargs.min_valu", (6, 25), "takes no 'min_valu'"),
        ("expectations[1].kwargs.min_value", (6, 49), "more than max_value"),
        ("expectations[1].kwargs.mostly", (6, 74), "less than or equal to 1"),
        ("expectations[2].kwargs.column", (8, 5), "column is missing"),
        ("expectations[2].kwargs.value_set", (8, 25), "not a valid list"),
        ("expectations[2].kwargs.severity", (8, 28), "beside kwargs"),
        ("expectations[2].on_fail", (9, 14), "cannot go to quarantine: no stream here lands in it"),
        ("expectations[2].waive_until", (10, 18), "waiver has ended"),
        ("expectations[3].kwargs.unexpected_rows_query", (11, 73), "{batch}"),
        ("expectations[3].sevrity", (11, 86), "unknown key 'sevrity'"),
        ("expectations[4].kwargs", (12, 5), "cannot both be None"),
        ("expectations[5].kwargs.unexpected_rows_query", (13, 82), "missing before 'FROM'"),
        ("expectations[6].kwargs.unexpected_rows_query", (14, 74), "one SELECT, this is DELETE"),
        ("expectations[7].kwargs.unexpected_rows_query", (15, 73), "more than one statement"),
        ("expectations[8].kwargs.unexpected_rows_query", (20, 19), "{foo} has no value"),
        ("expectations[9].kwargs.unexpected_rows_query", (21, 113), "missing before 'AND'"),
        ("expectations[10].kwargs.regex", (22, 76), "not a regular expression of Java: Unclosed group at character 2"),
        ("expectations[11].kwargs.regex_list[1]", (23, 102), "Unclosed character class"),
        ("expectations[12].kwargs.only", (24, 51), "less"),
        ("expectations[12].kwargs.limits", (24, 56), "unknown key"),
        ("expectations[13].kwargs.total", (26, 21), "SQL"),
        ("expectations[14].kwargs", (27, 52), "2 columns cannot be compared with 1 keys"),
        ("expectations[15].type", (28, 12), "no such expectation"),
        ("expectations[16].type", (29, 12), "not on Spark"),
        ("expectations[17].kwargs.type_", (30, 75), "Spark has no type of this name"),
        ("expectations[18].kwargs.type_list[1]", (31, 90), "Spark has no type of this name"),
        ("expectations[20].kwargs.json_schema.type", (33, 95), "not a JSON schema"),
        ("expectations[21].kwargs.regex", (34, 76), "a class of POSIX"),
    ],
)
def test_every_problem_is_reported_at_its_place(problems, path: str, place: tuple[int, int], words: str) -> None:
    found = problems[path]
    assert (found["line"], words in found["message"]) == (place[0], True), found
    if path != "expectations[4].kwargs":
        assert found["column"] == place[1]


def test_no_other_problem_is_reported(problems) -> None:
    assert len(problems) == 30


def test_the_nearest_name_is_reported(problems) -> None:
    assert problems["expectations[0].type"]["nearest"] == "expect_column_values_to_not_be_null"
    assert problems["expectations[1].kwargs.min_valu"]["nearest"] == "min_value"
    assert problems["expectations[15].type"]["nearest"] == "expect_volume_as_usual"
    assert "min_value" in problems["expectations[1].kwargs.min_valu"]["valid"]


def test_a_warning_alone_is_ok(tmp_path: Path, lint) -> None:
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    (tmp_path / "expectations").mkdir()
    (tmp_path / "expectations" / "ns.good.yaml").write_text(
        GOOD.replace("{column: id}}", "{column: id}, waive_until: 2025-01-01}")
    )
    done = lint(tmp_path)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["ok"], [each["severity"] for each in answer["problems"]]) == (0, True, ["warning"])


def test_a_path_without_a_project_is_not_clean(tmp_path: Path, lint) -> None:
    done = lint(tmp_path / "nowhere")
    assert done.returncode == 2
    assert "not a Lakeward project" in done.stdout


def test_rows_that_cannot_go_to_quarantine_are_a_problem_of_the_suite(tmp_path: Path, lint) -> None:
    streams, suites = tmp_path / "conf" / "streams", tmp_path / "expectations"
    streams.mkdir(parents=True)
    suites.mkdir()
    (suites / "n.t.yaml").write_text(ASIDE)
    (streams / "s.yaml").write_text(STREAM)
    reads = STREAM.replace("kafka: {topics: [t], max_offsets_per_trigger", "iceberg: {table: n.t, max_rows_per_trigger")
    reads = reads.replace('decode: {json: "a INT, b INT"}\n', "").replace("n.t}}\ntrigger", "n.u}}\ntrigger")
    (streams / "r.yaml").write_text(reads)
    problems = json.loads(lint(tmp_path).stdout)["problems"]
    assert [(each["line"], each["message"].partition("quarantine: ")[2]) for each in problems] == [
        (4, "stream s: a commit that removes rows blocks the streams that read n.t: r"),
        (5, "it judges the rows as a whole, or several columns at once"),
        (6, "other rows decide whether a row fails it: which of them is wrong is unknown"),
        (8, "it reads some of the rows only (row_condition)"),
        (9, "it judges the table's rows as a whole"),
        (10, "it reads verified rows too: the policy moves new rows only (scope: increment)"),
    ]


TYPED = """\
table: n.t
owner: me
expectations:
  - {type: expect_column_values_to_be_in_set, kwargs: {column: A, value_set: [1, n/a, null]}}
  - {type: expect_column_values_to_be_in_set, kwargs: {column: b, value_set: [01234]}}
  - {type: expect_column_values_to_not_be_null, kwargs: {column: bb}}
  - type: expect_column_values_to_not_be_null
    kwargs:
      column: b
      row_condition: 'col("b") == "XX" and col("a") > 100'
      condition_parser: great_expectations
  - type: expect_column_values_to_match_regex
    kwargs: {column: b, regex: "(.*a){20}b"}
  - {type: expect_column_values_to_be_between, kwargs: {column: c, max_value: n/a}}
"""


def test_arguments_are_judged_by_the_columns_that_a_stream_declares(tmp_path: Path, lint) -> None:
    streams, suites = tmp_path / "conf" / "streams", tmp_path / "expectations"
    streams.mkdir(parents=True)
    suites.mkdir()
    (suites / "n.t.yaml").write_text(TYPED)
    query = "SELECT a, b, CAST(a AS DATE) AS c, a + 1 AS d FROM source"
    stream = STREAM.replace("b INT", "b STRING").replace("SELECT * FROM source", f'"{query}"')
    (streams / "s.yaml").write_text(f"{stream}lineage: none\n")
    done = lint(tmp_path)
    found = {(each["line"], each["severity"]): each["message"] for each in json.loads(done.stdout)["problems"]}
    assert done.returncode == 2
    expected = {
        (4, "error"): "column a is INT: 'n/a' is not a whole number (valid: 42)",
        (4, "warning"): "null has no effect here",
        (5, "error"): "write it in quotes, as it is in the data: '01234'",
        (6, "error"): "the table has no column 'bb'",
        (10, "error"): 'would ignore `and col("a") > 100`',
        (13, "warning"): "more than two million steps",
        (14, "error"): "max_value",
    }
    assert set(found) == set(expected), found
    assert all(words in found[place] for place, words in expected.items() if place[0] != 14), found


@pytest.mark.parametrize(
    ("table", "asked"), [("", []), ("table: flights\n", []), ("table: 7\n", []), ("table: n.t\n", ["n.t"])]
)
def test_a_catalog_is_asked_for_names_of_tables_only(tmp_path: Path, table: str, asked: list[str]) -> None:
    """The loader reports the others at their place; PyIceberg raises what is no error of Lakeward."""
    from lakeward.quality.suite.lint import lint_file
    from lakeward.spec.read.files import Files

    (tmp_path / "n.t.yaml").write_text(f"{table}owner: o\nexpectations: []\n")
    names: list[str] = []

    def columns_of(name: str) -> None:
        names.append(name)

    lint_file(Files(tmp_path), tmp_path / "n.t.yaml", columns_of=columns_of, refused={})
    assert names == asked


def test_of_one_argument_the_words_about_the_column_come_before_those_of_great_expectations(tmp_path: Path) -> None:
    from lakeward.quality.arguments.columns import Columns
    from lakeward.quality.suite.lint import lint_file
    from lakeward.spec.read.files import Files

    one = "{type: expect_column_values_to_be_between, kwargs: {column: d, min_value: 01/02/2026}}"
    (tmp_path / "n.t.yaml").write_text(f"table: n.t\nowner: o\nexpectations:\n  - {one}\n")
    files = Files(tmp_path)
    lint_file(files, tmp_path / "n.t.yaml", columns_of=lambda name: Columns({"d": "date"}), refused={})
    (problem,) = files.problems
    assert "column d is DATE: '01/02/2026' is not a day (valid: 2026-12-31)" in problem.message
