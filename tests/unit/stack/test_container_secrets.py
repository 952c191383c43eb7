"""Secrets of the composed stack: made once, closed to other users of the host, usable in a container or refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from rights import READS_ALL

from lakeward.cli.app import main
from lakeward.platform.errors import Refused, SpecError
from lakeward.stack import container_secrets
from lakeward.stack.container_secrets import FILES, adopt, make


def test_every_secret_is_made_once(tmp_path: Path) -> None:
    made, kept = make(tmp_path)
    assert (set(made), kept) == (set(FILES), [])
    before = {name: (tmp_path / "secrets" / name).read_text() for name in FILES}
    assert len(set(before.values())) == len(FILES)
    assert min(len(text.strip()) for text in before.values()) >= 43
    Fernet(before["airflow.fernet.key"].strip())
    (tmp_path / "secrets/connect.token").unlink()
    made, kept = make(tmp_path)
    assert made == ["connect.token"]
    assert set(kept) == set(FILES) - {"connect.token"}
    for name, text in before.items():
        assert ((tmp_path / "secrets" / name).read_text() == text) is (name != "connect.token")


def test_the_folder_is_closed_and_each_file_can_be_read_by_the_user_of_a_container(tmp_path: Path) -> None:
    make(tmp_path)
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert {(tmp_path / "secrets" / name).stat().st_mode & 0o777 for name in FILES} == {0o444}
    found = {file.name for file in (tmp_path / "secrets").iterdir()}
    assert found == {*FILES, ".gitignore"}, "no file in the making stays"


def test_git_does_not_see_the_secrets_of_any_project(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    make(tmp_path)
    status = subprocess.run(["git", "-C", str(tmp_path), "status", "--short"], capture_output=True, check=True)
    assert status.stdout == b""


def test_an_empty_secret_is_said_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/postgres.password").write_text("\n")
    with pytest.raises(Refused, match=r"postgres\.password is empty") as refused:
        make(tmp_path)
    assert "rm " in str(refused.value.next)
    assert (tmp_path / "secrets/postgres.password").read_text() == "\n"


def test_a_secret_that_another_process_made_in_the_meantime_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> str:
        (tmp_path / "secrets/connect.token").write_text("theirs")
        return "ours"

    monkeypatch.setitem(container_secrets.FILES, "connect.token", meanwhile)
    with pytest.raises(SpecError, match="File exists"):
        make(tmp_path)
    assert (tmp_path / "secrets/connect.token").read_text() == "theirs"


def test_no_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is no folder"):
        make(tmp_path / "absent")


def test_a_container_takes_what_is_mounted_and_keeps_it_private(tmp_path: Path) -> None:
    make(tmp_path)
    home = tmp_path / "home"
    assert adopt(tmp_path / "secrets", home) == list(FILES)
    assert {file.stat().st_mode & 0o777 for file in home.iterdir()} == {0o600}
    for name in FILES:
        if name != "connect.token":
            (tmp_path / "secrets" / name).unlink()
    (tmp_path / "secrets/connect.token").chmod(0o600)
    (tmp_path / "secrets/connect.token").write_text("another")
    assert adopt(tmp_path / "secrets", home) == ["connect.token"]
    assert (home / "connect.token").read_text() == "another\n"


def test_a_mounted_secret_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "connect.token").write_text("")
    with pytest.raises(SpecError, match=r"connect\.token: it is empty"):
        adopt(tmp_path, tmp_path / "home")
    if not READS_ALL:
        (tmp_path / "connect.token").chmod(0)
        with pytest.raises(SpecError, match=r"connect\.token: Permission denied"):
            adopt(tmp_path, tmp_path / "home")


def test_the_command_says_what_it_made_and_the_next_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docker-compose.yml").touch()
    with pytest.raises(SystemExit) as end:
        main(["init", "--compose", str(tmp_path), "-o", "json"])
    assert end.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said["made"]) == set(FILES)
    assert said["kept"] == []
    assert said["next"] == [f"cd {tmp_path} && docker compose up --build --detach"]
    with pytest.raises(SystemExit):
        main(["init", "--compose", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "kept connect.token" in printed
    assert "docker compose up" in printed
    for name in FILES:
        assert (tmp_path / "secrets" / name).read_text().strip() not in printed, "no value is printed"


def test_a_folder_without_a_compose_file_gets_no_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["init", "--compose", str(tmp_path)])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "has no compose file" in said and "LW-2548" in said
    assert list(tmp_path.iterdir()) == []


def test_init_without_a_folder_says_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["init"])
    assert end.value.code == 2
    assert "lakeward init mylake" in capsys.readouterr().err
