"""Stacks that start at the same time choose different ports, although none is taken yet."""

from __future__ import annotations

import json
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import time_machine

from lakeward.jars import places
from lakeward.platform.runtime import Home, Project
from lakeward.stack import claims
from lakeward.stack.stack import Stack
from lakeward.stack.state import DEFAULT_PORTS, StackState


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return places.cache() / "stacks"


def chosen(home: Path, **remembered: int) -> dict[str, int]:
    """The ports `stack up` would start this home with."""
    return Stack(Project(home), Home(home))._ports(StackState(ports=remembered))


def test_two_homes_never_choose_the_same_port(tmp_path: Path) -> None:
    together = Barrier(6)

    def start(name: str) -> dict[str, int]:
        together.wait()
        return chosen(tmp_path / name)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(start, "abcdef"))
    every = [port for each in found for port in each.values()]
    assert len(set(every)) == len(every) == 6 * len(DEFAULT_PORTS)


def test_a_home_keeps_what_it_claimed_itself(tmp_path: Path) -> None:
    first = chosen(tmp_path / "a")
    assert chosen(tmp_path / "a", **first) == first
    assert chosen(tmp_path / "b", **first)["airflow"] != first["airflow"], "remembered, and claimed by another now"


def test_a_claim_ends_after_a_while_and_with_its_stack(tmp_path: Path) -> None:
    def others(name: str, *takes: int) -> set[int]:
        """What a home is told that others claim, when it takes these."""
        told: set[int] = set()

        def choose(claimed: Collection[int]) -> dict[str, int]:
            told.update(claimed)
            return {str(port): port for port in takes}

        claims.claim(tmp_path / name, choose)
        return told

    with time_machine.travel("2026-03-01T03:00:00Z", tick=False) as clock:
        assert others("a", 1, 2) == set()
        clock.shift(599)
        assert others("b", 3) == {1, 2}
        clock.shift(1)
        assert others("c") == {3}
        (tmp_path / "b").mkdir()
        StackState(ports={"airflow": 3}).save(Home(tmp_path / "b"))
        Stack(Project(tmp_path), Home(tmp_path / "b")).down(None, print)
        assert others("c", 4) == set()
        clock.move_to("2026-03-01T01:00:00Z")
        assert others("d") == set(), "a clock that was set back makes no claim longer"


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"8080": 1}', '{"x": {"home": "h", "at": 1}}', '{"1": {"at": "x"}}'])
def test_a_damaged_file_is_written_again(tmp_path: Path, cache: Path, text: str) -> None:
    cache.mkdir(parents=True)
    (cache / "ports.json").write_text(text)
    ports = chosen(tmp_path / "a")
    assert set(json.loads((cache / "ports.json").read_text())) == {str(port) for port in ports.values()}


def test_a_cache_that_cannot_be_written_keeps_nobody_from_starting(tmp_path: Path, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("no folder")
    assert set(chosen(tmp_path / "a")) == set(DEFAULT_PORTS)
    cache.unlink()
    (cache / "ports.json").mkdir(parents=True)  # the folder, but not the file
    assert set(chosen(tmp_path / "a")) == set(DEFAULT_PORTS)
