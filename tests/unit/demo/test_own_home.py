"""The home of a checked demo is removed only while nothing else stands in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.demo import own_home
from lakeward.platform.errors import Refused
from lakeward.platform.runtime import Home
from lakeward.stack.state import exclusive
from lakeward.tables.guard import owners


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a" / "check")


def test_what_an_earlier_check_left_is_removed(home: Home) -> None:
    own_home.begin(home)
    (home.root / "logs").mkdir()
    (home.root / "logs" / "x.log").write_text("x")
    (home.root / owners.FILE).write_text("x")  # of its maintenance
    own_home.begin(home)
    assert [item.name for item in home.root.iterdir()] == [own_home.MARK]
    assert own_home.remove(home) is None
    assert not home.root.exists()


def test_one_that_just_starts_is_left_alone(home: Home) -> None:
    own_home.begin(home)
    with exclusive(home), pytest.raises(Refused, match="running in this home"):
        own_home.begin(home)
    assert (home.root / own_home.MARK).exists()
    own_home.begin(home)


def test_an_empty_folder_may_be_taken(home: Home) -> None:
    home.root.mkdir(parents=True)
    own_home.begin(home)
    assert (home.root / own_home.MARK).exists()


@pytest.mark.parametrize("names", [["mine.txt"], ["stack.json"], ["warehouse", "secrets"], [own_home.MARK, "mine.txt"]])
def test_anything_else_is_refused_with_the_next_command(home: Home, names: list[str]) -> None:
    home.root.mkdir(parents=True)
    for name in names:
        (home.root / name).write_text("{}")
    with pytest.raises(Refused) as refused:
        own_home.begin(home)
    assert str(home.root) in refused.value.why
    assert "lakeward demo --check --home DIR" in refused.value.next
    assert own_home.remove(home) is not None
    assert sorted(item.name for item in home.root.iterdir()) == sorted(names)


def test_a_link_is_not_followed(home: Home, tmp_path: Path) -> None:
    own_home.begin(Home(tmp_path / "elsewhere"))
    home.root.parent.mkdir()
    home.root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused) as refused:
        own_home.begin(home)
    assert "is a link" in refused.value.why
    assert (tmp_path / "elsewhere" / own_home.MARK).exists()
