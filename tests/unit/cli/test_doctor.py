from __future__ import annotations

import json
import shutil
import socket
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from lakeward.cli.app import main
from lakeward.platform import ports
from lakeward.registry import heartbeats

ROOT = Path(__file__).parents[3]


def reconcile(site: Any) -> dict[str, Any]:
    (check,) = (each for each in site.lakeward("doctor", "-o", "json").json["checks"] if each["name"] == "reconcile")
    return dict(check)


def test_doctor_says_whether_anybody_looks_after_the_streams(site: Any) -> None:
    assert (reconcile(site)["ok"], reconcile(site)["found"]) == (True, "no pass yet")
    with site.registry() as connection:
        heartbeats.record(connection, "reconcile", duration_s=0.1)
    assert reconcile(site)["ok"]
    with site.registry() as connection:
        connection.execute(text("UPDATE ticks SET at = at - INTERVAL '10 minutes'"))
    late = reconcile(site)
    assert not late["ok"]
    assert "no reconcile pass has succeeded for 10 min" in late["found"]
    assert "streams_reconcile" in late["next"]


def test_the_state_of_the_stack_names_the_command_that_starts_what_is_down(site: Any) -> None:
    answer = site.lakeward("stack", "status", "-o", "json")
    assert answer.code == 3
    assert "next: lakeward stack up " in answer.err


def test_doctor_without_a_registry_says_nothing_of_it(site: Any, tmp_path: Any) -> None:
    site._capture.readouterr()
    with suppress(SystemExit):
        main(["doctor", "-o", "json", "--home", str(tmp_path / "none")])
    assert '"reconcile"' not in site._capture.readouterr().out


def test_a_home_that_is_a_file_is_refused_in_words(site: Any, tmp_path: Any) -> None:
    (tmp_path / "file").write_text("")
    for command in (["stack", "status"], ["stack", "down"], ["doctor"]):
        with pytest.raises(SystemExit) as end:
            main([*command, "--home", str(tmp_path / "file")])
        assert end.value.code == 2
        assert "cannot be the home of a stack" in site._capture.readouterr().err


def test_a_cluster_that_does_not_answer_is_reported_by_name_also_by_deploy(site: Any, tmp_path: Any) -> None:
    away = ports.any_free()
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    settings = tmp_path / "conf/lakeward.yaml"
    settings.write_text(
        settings.read_text().replace("cores: 2", f"backend: standalone\n    master: spark://127.0.0.1:{away}")
    )

    def lakeward(*arguments: str) -> Any:
        site._capture.readouterr()
        with suppress(SystemExit):
            main([*arguments, "--home", str(site.home), "--project", str(tmp_path)])
        return site._capture.readouterr()

    checks = json.loads(lakeward("doctor", "-o", "json").out)["checks"]
    (check,) = (each for each in checks if each["name"] == "spark master")
    assert not check["ok"]
    assert check["found"] == f"does not answer: 127.0.0.1:{away}: Connection refused"
    assert check["wanted"] == f"spark://127.0.0.1:{away}, for driver demo"
    assert "correct drivers: in conf/lakeward.yaml" in check["next"]
    said = " ".join(lakeward("deploy", "--plan").err.split())
    assert f"The Spark master spark://127.0.0.1:{away} does not answer; driver demo will wait for it" in said
    with closing(socket.create_server(("127.0.0.1", away))):
        checks = json.loads(lakeward("doctor", "-o", "json").out)["checks"]
        assert [each["ok"] for each in checks if each["name"] == "spark master"] == [True]


def test_a_connection_that_is_missing_is_reported_by_doctor_and_with_its_line_by_deep_validation(
    site: Any, tmp_path: Any
) -> None:
    from lakeward.cli.deep import cluster_problems
    from lakeward.platform.runtime import Home, Project
    from lakeward.spec.read.loader import load_project

    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    settings = tmp_path / "conf/lakeward.yaml"
    settings.write_text(settings.read_text().replace("cores: 2", "backend: standalone\n    connection: spark_prod"))
    [line] = [number for number, text in enumerate(settings.read_text().splitlines(), 1) if "spark_prod" in text]
    site._capture.readouterr()
    with suppress(SystemExit):
        main(["doctor", "-o", "json", "--home", str(tmp_path / "home"), "--project", str(tmp_path)])
    checks = json.loads(site._capture.readouterr().out)["checks"]
    (check,) = (each for each in checks if each["name"] == "spark master")
    assert not check["ok"] and "LW-2581" in check["found"] and "create it in Airflow" in check["next"]
    assert check["wanted"] == "connection spark_prod, for driver demo"
    [problem] = cluster_problems(Project(tmp_path), Home(tmp_path / "home"), load_project(Project(tmp_path)))
    assert (problem.file, problem.line, problem.path) == ("conf/lakeward.yaml", line, "drivers.demo.connection")
    assert "LW-2581" in problem.message
