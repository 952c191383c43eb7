"""Secrets are made once, and only their owner reads them."""

from __future__ import annotations

import stat
from pathlib import Path

from lakeward.stack import private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_written_file_is_its_owners_alone(tmp_path: Path) -> None:
    file = private.write(tmp_path / "x", "one")
    file.chmod(0o644)
    private.write(file, "two")
    assert mode(file) == 0o600
    assert file.read_text() == "two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"], "nothing half written is left"


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    first = private.keep(tmp_path / "s")
    assert len(first) >= 32
    assert private.keep(tmp_path / "s") == first
    assert private.keep(tmp_path / "t") != first
    assert private.keep(tmp_path / "given", "made elsewhere") == "made elsewhere"


def test_a_folder_is_closed_even_if_it_was_open(tmp_path: Path) -> None:
    open_folder = tmp_path / "f"
    open_folder.mkdir(mode=0o755)
    assert mode(private.folder(open_folder)) == 0o700
