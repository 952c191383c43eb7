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
from lakeward.runtime import Home


@pytest.fixture
def home(table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that leads to the services of the tests."""
    made = Home(tmp_path / "home")
    made.secrets.mkdir(parents=True)
    made.runtime_file.write_text(table.runtime.model_dump_json())
    monkeypatch.setenv("LAKEWARD_REGISTRY_URL_FILE", str(table.runtime.registry_url_file))
    return made.root


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
    code, out, _ = lakeward(capsys, home, table, "show", "-o", "json")
    shown = json.loads(out)
    assert code == 0
    alike = ["table", "run", "suite", "from_snapshot", "to_snapshot", "verdict", "first_bad_snapshot", "spark_jobs"]
    assert {key: shown[key] for key in alike} == {key: ran[key] for key in alike}
    assert sorted(shown["checks"], key=str) == sorted(ran["checks"], key=str)
    code, out, _ = lakeward(capsys, home, table, "show")
    for words in ("HELD", "2 of 10 rows fail", "_kafka_offset=10", f"since     snapshot {bad}",
                  f"readers stay on verified snapshot {good}", f"lakeward quality run {table.name}"):  # fmt: skip
        assert words in out, out


def test_a_table_never_checked_and_a_wrong_scope(table, home: Path, capsys) -> None:
    code, _, err = lakeward(capsys, home, table, "show")
    assert code == 1 and f"lakeward quality run {table.name}" in err
    code, _, err = lakeward(capsys, home, table, "run", "--scope", "everything")
    assert code == 2 and "increment, window, table" in err


SCRIPT = """
import sys
from pathlib import Path
from lakeward.quality import check
from lakeward.runtime import Runtime
runtime = Runtime.model_validate_json(Path(sys.argv[1]).read_text())
check(runtime, runtime.registry_url_file.read_text(), Path(sys.argv[2]), [sys.argv[3]],
      tell=lambda level, text, fields: print(text, flush=True))
"""


def test_the_checking_process_does_not_outlive_a_killed_asker(table, home: Path) -> None:
    table.append()
    command = [sys.executable, "-c", SCRIPT, str(home / "runtime.json"), str(table.project), table.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None and "first check" in asker.stdout.readline()
        (worker,) = psutil.Process(asker.pid).children()
        os.kill(asker.pid, signal.SIGKILL)
    end = monotonic() + 60
    while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
        assert monotonic() < end, "it works on for nobody"
        sleep(0.1)
    assert table.verified is None
