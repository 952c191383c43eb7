from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from rights import READS_ALL

from lakeward.cli.app import main
from lakeward.cli.init import create
from lakeward.platform.errors import Refused, SpecError


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(Refused, match="is not empty"):
        create(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(Refused, match="is a file"):
        create(tmp_path / "mine")


def test_it_says_the_next_three_commands(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["init", str(tmp_path / "mylake"), "-o", "json"])
    assert end.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert said["next"] == [f"cd {tmp_path / 'mylake'}", "lakeward config validate", "lakeward stack up"]
    assert ".gitignore" in said["files"]
    assert ".github/workflows/lakeward.yml" in said["files"]


def test_a_path_is_said_as_a_shell_takes_it(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["init", str(tmp_path / "my lake"), "-o", "json"])
    assert json.loads(capsys.readouterr().out)["next"][0] == f"cd '{tmp_path / 'my lake'}'"


def test_the_new_projects_own_test_passes(tmp_path):
    create(tmp_path / "mylake")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path / "mylake",
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_a_link_that_leads_in_a_circle_is_no_place_for_one(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SystemExit) as end:
        main(["init", str(tmp_path / "loop"), "--project", str(tmp_path / "loop"), "--home", str(tmp_path / "loop")])
    assert end.value.code == 2


@pytest.mark.skipif(READS_ALL, reason="root writes everywhere")
def test_below_a_folder_nobody_may_enter_there_is_no_place_either(tmp_path):
    tmp_path.chmod(0o000)
    try:
        with pytest.raises(SpecError, match="cannot be written"):
            create(tmp_path / "mylake")
    finally:
        tmp_path.chmod(0o700)
