"""The two doors, the command line and `lakeward.quality.check`, each with a checking process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from lakeward.cli.app import main


def lakeward(capsys: pytest.CaptureFixture[str], home: Path, table, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command."""
    with pytest.raises(SystemExit) as ended:
        main(["quality", *words, table.name, "--home", str(home), "--project", str(table.project)])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


def test_run_and_show_tell_the_same_as_people_and_scripts_need_it(table, home: Path, capsys) -> None:
    good = table.append()
    table.check()
    bad = table.append(bad=2)
    code, out, err = lakeward(capsys, home, table, "run", "-o", "json")
    assert code == 3
    ran = json.loads(out)
    assert (ran["verdict"], ran["first_bad_snapshot"], ran["verified_snapshot"]) == ("hold", bad, good)
    assert "expect_column_values_to_not_be_null(carrier) failed: 2 of 10 rows" in " ".join(err.split())
    assert "no checker is up: this run starts a process of its own, slower" in " ".join(err.split())
    code, out, _ = lakeward(capsys, home, table, "show", "-o", "json")
    shown = json.loads(out)
    assert code == 0
    alike = ["table", "run", "suite", "from_snapshot", "to_snapshot", "verdict", "first_bad_snapshot", "spark_jobs"]
    assert {key: shown[key] for key in alike} == {key: ran[key] for key in alike}
    assert sorted(shown["checks"], key=str) == sorted(ran["checks"], key=str)
    code, out, _ = lakeward(capsys, home, table, "history", "-o", "json")
    past = json.loads(out)
    assert (code, [each["verdict"] for each in past["runs"]]) == (0, ["hold", "pass"])
    failing = {each["expectation"]: each["failing_since"] for each in past["checks"] if each["failing_since"]}
    assert {name: each["snapshot"] for name, each in failing.items()} == {"expect_column_values_to_not_be_null": bad}
    code, out, _ = lakeward(capsys, home, table, "history")
    assert f", snapshot {bad}" in out and "not_be_null(carrier)" in out
    code, out, _ = lakeward(capsys, home, table, "show")
    for words in ("HELD", "2 of 10 rows fail", "_kafka_offset=10", f"since     snapshot {bad}",
                  f"readers stay on verified snapshot {good}", f"lakeward quality run {table.name}"):  # fmt: skip
        assert words in out, out


def test_a_proposed_suite_passes_on_the_rows_it_was_proposed_from(table, home: Path, capsys) -> None:
    table.append(200)
    table.sql("ALTER TABLE {t} ADD COLUMNS (odd STRING, order_id STRING, z DOUBLE, `a.b` INT)")
    table.sql(
        "INSERT INTO {t} SELECT id, 'BB', 2D * id, 0, id, if(id % 2 = 0, 'it''s', '? no'), concat('k', id), "
        "if(id = 300, double('NaN'), 1D), 7 FROM range(200, 3200)"
    )
    suite = table.project / "expectations" / f"{table.name}.yaml"
    before = suite.read_text()
    code, _, err = lakeward(capsys, home, table, "profile")
    assert code == 4 and "--force" in err and suite.read_text() == before
    code, out, _ = lakeward(capsys, home, table, "profile", "--force", "-o", "json")
    said = json.loads(out)
    assert (code, said["rows"], said["rows_read"], said["snapshot"]) == (0, 3200, 3200, table.head)
    told = {(each["type"].removeprefix("expect_"), each["kwargs"].get("column")) for each in said["expectations"]}
    assert told == {
        ("table_columns_to_match_set", None),
        ("column_values_to_not_be_null", "id"),
        ("column_values_to_not_be_null", "carrier"),
        ("column_values_to_not_be_null", "delay"),
        ("column_values_to_be_in_set", "carrier"),
        ("column_values_to_be_between", "delay"),
        ("column_values_to_be_in_set", "odd"),
        ("column_values_to_be_unique", "id"),
        ("column_values_to_be_unique", "order_id"),
    }
    assert said["left"].keys() == {"z", "a.b"} and "of its rows are null" in said["left"]["a.b"]
    checked = table.check(scope="table")
    assert [each for each in checked["checks"] if each["state"] != "pass"] == []
    code, out, _ = lakeward(capsys, home, table, "profile", "--dry-run")
    assert code == 0 and out == suite.read_text()


def test_a_proposal_is_exact_and_its_own_rows_pass_it(table, home: Path, capsys) -> None:
    table.sql(
        "ALTER TABLE {t} ADD COLUMNS (big DECIMAL(38,0), small DECIMAL(38,30), x DOUBLE, y DOUBLE, nul STRING, `*` INT)"
    )
    table.sql(
        "INSERT INTO {t} SELECT id, 'BB', 2D * id, 0, id, "
        "CAST('12345678901234567890123456789012345678' AS DECIMAL(38,0)) - 2 * id, "
        "CAST('0.123456789012345678901234567890' AS DECIMAL(38,30)), "
        "if(id = 3, double('Infinity'), 1D), double('NaN'), concat('a\\u0000', id % 2), id % 3 FROM range(200)"
    )
    code, out, err = lakeward(capsys, home, table, "profile", "--force", "-o", "json")
    said = json.loads(out)
    named = {each["kwargs"].get("column") for each in said["expectations"]}
    assert {"nul", "*"} <= named and said["left"].keys() == {"x", "y"} - named, said["left"]
    with pytest.raises(SystemExit) as ended:
        main(["quality", "lint", "--home", str(home), "--project", str(table.project)])
    assert ended.value.code in (0, None), capsys.readouterr().out
    capsys.readouterr()
    bounded = {each["kwargs"]["column"] for each in said["expectations"] if "min_value" in each["kwargs"]}
    assert code == 0 and "big" in bounded and not bounded & {"x", "y"}, err
    bounds = next(each["kwargs"] for each in said["expectations"] if "min_value" in each["kwargs"]
                  and each["kwargs"]["column"] == "big")  # fmt: skip
    assert int(bounds["min_value"]) <= 12345678901234567890123456789012345678 - 400 and len(bounds["max_value"]) == 38
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ, "a classic session of this process would fail"
    checked = table.check(scope="table")
    assert [each for each in checked["checks"] if each["state"] not in ("pass", "skipped")] == []


@pytest.mark.campaign(
    held_by="tests/unit/quality/suite/test_propose.py::test_a_table_that_grows_by_itself_is_compared_with_itself"
)
def test_a_table_that_grows_is_proposed_to_be_compared_with_itself(table, home: Path, capsys) -> None:
    table.sql("ALTER TABLE {t} ADD COLUMNS (seen TIMESTAMP)")
    for _ in range(10):
        table.sql("INSERT INTO {t} SELECT id, 'BB', 2D * id, 0, id, current_timestamp() FROM range(20)")
    code, out, err = lakeward(capsys, home, table, "profile", "--force", "-o", "json")
    assert code == 0, err
    told = {each["type"]: each["kwargs"] for each in json.loads(out)["expectations"]}
    assert told["expect_volume_as_usual"] == {}
    assert told["expect_freshness_as_usual"] == {"column": "seen"}
    assert {each["state"] for each in table.check(scope="table")["checks"]} <= {"pass", "skipped"}


def test_a_table_never_checked_and_a_wrong_scope(table, home: Path, capsys) -> None:
    code, _, err = lakeward(capsys, home, table, "show")
    assert code == 1 and f"lakeward quality run {table.name}" in err
    code, _, err = lakeward(capsys, home, table, "run", "--scope", "everything")
    assert code == 2 and "'increment', 'window', 'table'" in " ".join(err.replace("│", " ").split())


def test_a_person_waives_a_check_ends_that_and_releases_what_is_held(table, home: Path, capsys) -> None:
    def act(verb: str, *words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["quality", verb, table.name, *words, "--home", str(home), "--project", str(table.project)])
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out, " ".join(told.err.split())

    table.append(bad=2)
    assert table.check()["verdict"] == "hold"
    nulls = "values_to_not_be_null(carrier)"
    code, _, err = act("waive", f"column_{nulls}", "--for", "2h")
    assert code == 2 and "needs a comment" in err
    code, _, err = act("waive", "values_to_be_fine(carrier)", "--for", "2h", "--comment", "known")
    assert code == 2 and "no check of" in err and "column_values_to_not_be_null(carrier)" in err
    assert act("waive", f"column_{nulls}", "--for", "2h", "--reason", "the feed is mended tomorrow")[0] == 0
    result = table.check(due=True)
    assert (result["verdict"], table.verified) == ("warn", table.head), "a waiver makes what is held due"
    assert "the feed is mended tomorrow" in result["note"]
    assert "the feed is mended tomorrow" in " ".join(table.told)
    shown = " ".join(act("show")[1].split())
    assert f"waived column_{nulls} until" in shown and "note column_" in shown

    assert act("unwaive", f"column_{nulls}", "--comment", "it is mended")[0] == 0
    proven = table.verified
    table.append(bad=3)
    assert table.check()["verdict"] == "hold" and table.verified == proven
    code, _, err = act("release", "--comment", "we know")
    assert code == 4 and "3 rows" in err and table.verified == proven, "nobody approved it"
    assert act("release", "--yes", "--comment", "we know")[0] == 0
    assert table.verified == table.head
    assert "released by" in act("show")[1]
    assert act("release", "--yes", "--comment", "again")[0] == 4, "nothing is held any more"
    table.append()
    assert table.check()["range"]["rows"] == 10, "a release is a proof: only what landed since is looked at"


SCRIPT = """
import sys
from pathlib import Path
from lakeward.quality import check
from lakeward.platform.runtime import Runtime
runtime = Runtime.model_validate_json(Path(sys.argv[1]).read_text())
check(runtime, runtime.registry_url_file.read_text(), Path(sys.argv[2]), [sys.argv[3]],
      emit=lambda level, event, fields: print(event, fields, flush=True))
"""


def test_the_checking_process_does_not_outlive_a_killed_asker(table, home: Path) -> None:
    table.append()
    command = [sys.executable, "-c", SCRIPT, str(home / "runtime.json"), str(table.project), table.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None and any("first check" in line for line in asker.stdout)
        (worker,) = psutil.Process(asker.pid).children()
        os.kill(asker.pid, signal.SIGKILL)
    end = monotonic() + 60
    while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
        assert monotonic() < end, "it works on for nobody"
        sleep(0.1)
    assert table.verified is None
