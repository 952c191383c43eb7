"""Workers take the longest files first, and stay with the fixtures they have started."""

from __future__ import annotations

import json
from pathlib import Path

import durations
import packing
import pytest
from packing import choose

SESSION, CONNECT = "tests/spark/driver/test_{}.py", "tests/spark/tables/test_{}.py"


def simulate(waiting: dict[str, float], workers: int) -> tuple[float, dict[int, set[str]]]:
    """When the last worker ends, and the families of each."""
    free = dict.fromkeys(range(workers), 0.0)
    begun: dict[int, set[str]] = {worker: set() for worker in free}
    left = dict(waiting)
    while left:
        worker = min(free, key=lambda each: (free[each], each))
        chosen = choose(left, begun[worker], set().union(*begun.values()), workers)
        begun[worker].add(packing.family(chosen))
        free[worker] += left.pop(chosen)
    return max(free.values()), begun


def test_a_run_ends_soon_after_its_fair_share_and_shares_dear_fixtures() -> None:
    waiting = {SESSION.format(n): 10.0 + n for n in range(40)} | {CONNECT.format(n): 20.0 + n for n in range(12)}
    waiting |= {f"tests/unit/a/test_{n}.py": 1.0 for n in range(100)} | {"airflow": 250.0}
    end, begun = simulate(waiting, 3)
    assert end <= sum(waiting.values()) / 3 * 1.1
    assert sum("connect" in each for each in begun.values()) <= 2
    assert sum("airflow" in each for each in begun.values()) == 1


def test_what_would_end_last_if_it_waited_goes_first() -> None:
    waiting = {"airflow": 300.0, SESSION.format("a"): 100.0, SESSION.format("b"): 100.0}
    assert choose(waiting, {"session"}, {"session"}, 2) == "airflow"


def test_a_worker_stays_with_what_it_has_begun_and_else_begins_what_nobody_has() -> None:
    waiting = {f"tests/unit/test_{n}.py": 5.0 for n in range(100)}
    waiting |= {SESSION.format("a"): 12.0, CONNECT.format("a"): 9.0, CONNECT.format("b"): 8.0}
    assert choose(waiting, {"connect"}, {"connect", "session"}, 3) == CONNECT.format("a")
    assert choose(waiting, set(), {"", "session"}, 3) == CONNECT.format("a")


@pytest.mark.parametrize(
    ("nodeid", "scope", "family"),
    [
        ("tests/spark/driver/test_feed.py::test_a[x::y]", "tests/spark/driver/test_feed.py", "session"),
        ("tests/spark/quality/test_run.py::test_a", "tests/spark/quality/test_run.py", "connect"),
        ("tests/dags/test_streams.py::test_a", "airflow", "airflow"),
        ("tests/faults/test_airflow_survival.py::test_a", "airflow", "airflow"),
        ("tests/unit/spec/test_sql.py::test_a", "tests/unit/spec/test_sql.py", ""),
    ],
)
def test_a_unit_of_work_is_a_file_and_all_of_airflow_is_one(nodeid: str, scope: str, family: str) -> None:
    assert packing.scope_of(nodeid) == scope
    assert packing.family(scope) == family


def test_durations_are_sums_by_file_and_what_is_gone_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, kept = tmp_path / "tests.xml", tmp_path / "durations.json"
    report.write_text(
        "<testsuites><testsuite>"
        '<testcase classname="tests.contracts.test_tiers" name="a" time="1.25"/>'
        '<testcase classname="tests.contracts.test_tiers" name="b" time="2.0"/>'
        '<testcase classname="tests.contracts.test_gone" name="b" time="2.0"/>'
        "</testsuite></testsuites>"
    )
    kept.write_text(json.dumps({"tests/conftest.py": 3, "tests/unit/test_gone.py": 4}))
    monkeypatch.setattr(durations, "DURATIONS", kept)
    durations.main(report)
    assert json.loads(kept.read_text()) == {"tests/conftest.py": 3, "tests/contracts/test_tiers.py": 3.2}


def test_the_recorded_ones_are_read_by_unit_of_work(tmp_path: Path) -> None:
    file = tmp_path / "durations.json"
    assert packing.recorded(file) == {}
    file.write_text(json.dumps({"tests/dags/test_a.py": 3, "tests/dags/test_b.py": 4, "tests/unit/test_c.py": 1}))
    assert packing.recorded(file) == {"airflow": 7, "tests/unit/test_c.py": 1}
