"""A start that could only fail later is refused at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeward.platform.errors import Unhealthy
from lakeward.platform.runtime import Home
from lakeward.stack import requirements


def test_a_full_disk_is_refused_with_the_numbers(tmp_path: Path) -> None:
    home = Home(tmp_path / "not" / "yet" / "there")
    more_than_any_disk = 2**62
    with pytest.raises(Unhealthy, match="disk is full") as error:
        requirements.check(home, disk_bytes=more_than_any_disk)
    assert str(home.root) in error.value.why
    assert "--home" in error.value.next
    assert not home.root.exists(), "a refused start leaves nothing behind"


def test_a_home_with_room_is_made(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    requirements.check(home, disk_bytes=1)
    assert list(home.root.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_home_nobody_may_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(Unhealthy, match="cannot be written"):
        requirements.check(Home(tmp_path), disk_bytes=1)


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unhealthy, match="cannot be written"):
        requirements.check(Home(tmp_path / "file"), disk_bytes=1)
