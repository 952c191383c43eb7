"""Each check says what it found, what it wants and the exact next command."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lakeward.cli.deep import catalog_problems
from lakeward.platform import ports
from lakeward.platform.runtime import Home, Project
from lakeward.spec.read.loader import load_project
from lakeward.stack import doctor, site
from lakeward.stack.state import StackState

GIB = 1024**3


@pytest.mark.parametrize(("version", "ok"), [((3, 10), False), ((3, 11), True), ((3, 12), True), ((3, 13), False)])
def test_python(version: tuple[int, int], ok: bool) -> None:
    check = doctor.python(version)
    assert check.ok is ok
    assert check.next


def test_memory_and_disk_have_a_limit_each(tmp_path: Path) -> None:
    assert doctor.memory(StackState(), lambda: 8 * GIB).ok
    short = doctor.memory(StackState(), lambda: GIB)
    assert not short.ok
    assert "--only" in short.next
    assert short.found == "1.0 GB available"
    assert doctor.disk(Home(tmp_path), lambda path: 100 * GIB).ok
    full = doctor.disk(Home(tmp_path), lambda path: GIB // 2)
    assert not full.ok
    assert "--home" in full.next


def test_java_and_jars_carry_the_command_of_their_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert not doctor.java().ok
    assert doctor.java().next
    monkeypatch.setenv("LAKEWARD_JARS", str(tmp_path))
    assert not doctor.jar_files().ok
    assert doctor.jar_files().next == "python -m lakeward.jars"


def test_a_taken_port_is_reported_and_is_no_fault() -> None:
    with socket.socket() as other:
        other.bind((ports.HOST, 0))
        other.listen()
        state = StackState(ports={"kafka": other.getsockname()[1]})
        [check] = [check for check in doctor.port_checks(state) if check.name == "port kafka"]
    assert check.ok
    assert "in use by" in check.found
    assert "next free one" in check.found


@pytest.mark.parametrize(
    ("group", "word"),
    [
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "session-3.scope"),
        ("0::/system.slice/docker-abc.scope\n", "container"),
    ],
)
def test_what_ends_drivers_with_it_is_said(tmp_path: Path, group: str, word: str) -> None:
    file = tmp_path / "cgroup"
    file.write_text(group)
    assert word in doctor.survival(file).found or "container" in doctor.survival(file).found


def test_a_home_where_nothing_runs_shows_how_to_start(tmp_path: Path) -> None:
    from lakeward.platform.runtime import Project

    names = {check.name: check for check in doctor.examine(Project(tmp_path), Home(tmp_path / "home"))}
    assert names["stack"].next == "lakeward stack up"
    assert {"python", "java", "memory", "disk", "jars", "port postgres", "driver survival"} <= set(names)
    assert not (tmp_path / "home").exists(), "looking changes nothing"


def test_a_user_without_a_home_folder_is_shown_where_to_set_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAKEWARD_JARS", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 654_321)  # as in a container; nobody's number here
    check = doctor.jar_files()
    assert not check.ok
    assert check.next == "export XDG_CACHE_HOME=DIR"


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_the_catalog_of_the_settings_is_asked(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert list(doctor.catalog_checks(project, Home(tmp_path))) == []
    project.settings_file.parent.mkdir()
    uri = f"http://127.0.0.1:{closed_port()}"
    project.settings_file.write_text(f"catalogs: {{lake: {{type: rest, uri: '{uri}'}}}}\n")
    [check] = doctor.catalog_checks(project, Home(tmp_path))
    assert (check.name, check.ok) == ("catalog", False)
    assert uri in check.found
    assert "start the catalog" in check.next
    project.settings_file.write_text("catalogs: {lake: {type: rest}}\n")
    [wrong] = doctor.catalog_checks(project, Home(tmp_path))
    assert (wrong.name, wrong.ok, wrong.next) == ("settings", False, "lakeward config validate")


def test_deep_validation_names_the_catalog_at_its_line(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.settings_file.parent.mkdir()
    uri = f"http://127.0.0.1:{closed_port()}"
    text = f"catalogs:\n  lake:\n    type: rest\n    uri: {uri}\n"
    project.settings_file.write_text(text)
    [problem] = catalog_problems(project, Home(tmp_path), load_project(project))
    assert (problem.file, problem.line, problem.severity) == ("conf/lakeward.yaml", 2, "error")
    assert "does not answer" in problem.message
    project.settings_file.write_text(f"{text}    connection: polaris\n")
    [absent] = catalog_problems(project, Home(tmp_path), load_project(project))
    assert absent.severity == "warning", "the login of this machine says nothing about the catalog"
    assert "polaris" in absent.message


def test_each_catalog_is_asked_and_said_at_its_line(tmp_path: Path) -> None:
    """One that is away hides no other one."""
    project = Project(tmp_path)
    project.settings_file.parent.mkdir()
    uris = {name: f"http://127.0.0.1:{closed_port()}" for name in ("staging", "prod")}
    blocks = "".join(f"  {name}: {{type: rest, uri: '{uri}'}}\n" for name, uri in uris.items())
    project.settings_file.write_text(f"default_catalog: prod\ncatalogs:\n{blocks}")
    lake = site.lake_of(load_project(project).settings, Home(tmp_path), 0)
    assert (lake.name, [each.name for each in lake.others]) == ("prod", ["staging"])
    checks = {each.name: each for each in doctor.catalog_checks(project, Home(tmp_path))}
    assert {name: check.ok for name, check in checks.items()} == {"catalog prod": False, "catalog staging": False}
    assert all(uri in checks[f"catalog {name}"].found for name, uri in uris.items())
    problems = catalog_problems(project, Home(tmp_path), load_project(project))
    assert sorted((each.line, each.path) for each in problems) == [(3, "catalogs.staging"), (4, "catalogs.prod")]
