"""The page of `make bench`: what a script printed becomes a row with its spread, its goal and where it came from."""

from __future__ import annotations

from pathlib import Path

import bench_page
import pytest
from bench_figures import BENCHMARKS, Figure, Goal, Measured
from bench_history import Record, measured_at, newest, read

BENCHMARK_FOLDER = Path(bench_page.__file__).parent


def record(result: object, at: str = "2026-11-01T00:00:00+00:00", *, failed: str = "", commit: str = "abc") -> Record:
    """A run of the first benchmark."""
    return Record(
        name=BENCHMARKS[0].name, at=at, commit=commit, command=BENCHMARKS[0].command, seconds=60, load=(0.1, 1.9),
        machine={"cpu": "one", "cores": 2}, result=result, failed=failed,
    )  # fmt: skip


def ratio(median: float) -> dict[str, object]:
    return {"rows_per_cpu_second_ratio": {"lower_quartile": 0.5, "median": median, "upper_quartile": 1.5}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2, Measured(4, None, None)),
        ({"median": 2, "lower_quartile": 1, "upper_quartile": 3}, Measured(4, 2, 6)),
        ({"median": 2, "quartiles": [1, 3]}, Measured(4, 2, 6)),
        ({"median": 2, "low": 1, "high": 3}, Measured(4, 2, 6)),
        ({"median": 2, "least": 0, "most": 3}, Measured(4, 0, 6)),
        ({"median": 2}, Measured(4, None, None)),
        ({"mean": 2}, None),
        ("2", None),
        (None, None),
    ],
)
def test_a_figure_is_read_with_the_spread_its_script_gives(value, expected):
    figure = Figure("a", ("part", "figure"), "s", None, "", scale=2)
    assert figure.of({"part": {"figure": value}}) == expected
    assert figure.of({"part": 1}) is None
    assert figure.of({}) is None


def test_goals_have_a_direction():
    assert Goal(">=", 0.75).met(0.75) and not Goal(">=", 0.75).met(0.7)
    assert Goal("<=", 3).met(3) and not Goal("<=", 3).met(3.1)


def test_the_page_says_met_missed_and_not_measured():
    page = bench_page.page_text(newest([record(ratio(0.9))]))
    assert "| append, 2,000 rows a batch | 0.9 (0.5 to 1.5) | ratio | ≥ 0.75 | met |" in page
    assert "| append, 20,000 rows a batch | not measured | ratio | ≥ 1 | |" in page
    assert "`engine.py --mode append" in page and "commit abc, 2026-11-01, load 0.1" in page
    assert "| 0.7 (0.5 to 1.5) | ratio | ≥ 0.75 | missed |" in bench_page.page_text(newest([record(ratio(0.7))]))


def test_a_run_that_failed_hides_no_run_that_did_not():
    runs = [record(ratio(0.8)), record(None, "2026-11-02T00:00:00+00:00", failed="exit code 1")]
    assert newest(runs)[BENCHMARKS[0].name] is runs[0]
    assert bench_page.text_lines(runs[1:]) == [f"{BENCHMARKS[0].name}: failed, exit code 1"]


def test_what_was_measured_at_a_commit_is_not_measured_again():
    name = BENCHMARKS[0].name
    assert measured_at([record(ratio(1))], name, "abc")
    assert not measured_at([record(ratio(1))], name, "abd")
    assert not measured_at([record(None, failed="exit code 1")], name, "abc")
    assert not measured_at([record(ratio(1), commit="abc+")], name, "abc+"), "what is not committed changes"


def test_the_history_reads_what_it_wrote_without_samples(tmp_path):
    file = tmp_path / "history.jsonl"
    file.write_text(record({**ratio(1), "samples": [1, 2], "part": {"all": [1], "median": 1}}).line())
    [found] = read(file)
    assert found == record({**ratio(1), "part": {"median": 1}})


def test_names_and_scripts_of_the_benchmarks():
    names = [each.name for each in BENCHMARKS]
    assert len(names) == len(set(names))
    for each in BENCHMARKS:
        assert (BENCHMARK_FOLDER / each.command[0]).is_file(), each.command
        assert all(figure.means.endswith(".") for figure in each.figures)
    assert any(each.quick is not None for each in BENCHMARKS)


def test_the_page_is_that_of_the_history():
    page = (bench_page.FOLDER / "benchmarks.md").read_text()
    assert page == bench_page.page_text(newest(read())), "make bench ONLY=.. or `python benchmarks/run_all.py --page`"
