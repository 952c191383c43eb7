"""The campaign of duplicate launches, a few light trials of it; and it finds what it is there for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from duplicates import CONTENDERS, Trials
from seeds import seed
from world import World, make_world

from lakeward.connectors.iceberg import position_store
from lakeward.registry import drivers

MANY = 8
TWICE, APART = "one launch, more than once", "launches of their own"


@pytest.fixture
def trial(world: World, postgres: Any, kafka: Any, tmp_path: Path) -> Callable[[int], dict[str, Any]]:
    """Runs one light trial."""

    def make(place: Path) -> World:
        return make_world(postgres, world.pgpass, world.url, world.runtime.lake.database, kafka, place)

    return lambda seed: Trials(make, tmp_path / "trials").run(seed, heavy=False)


@pytest.mark.seeded
def test_of_eight_at_a_barrier_one_runs_and_one_lands(trial: Callable[[int], dict[str, Any]]) -> None:
    first = seed(900)
    found = [trial(each) for each in range(first, first + MANY)]
    assert all(each["ok"] for each in found), found
    assert {each["started"] for each in found} == {TWICE, APART}


@pytest.mark.campaign
def test_it_finds_a_launch_that_nobody_claims_and_the_table_still_lets_one_land(
    trial: Callable[[int], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "claim", lambda connection, name, token, process, holder: True)
    monkeypatch.setattr("lakeward.driver.registry_link.RegistryLink._take", lambda link, connection, scope, name: True)
    found = next(each for each in map(trial, count(900)) if each["started"] == TWICE)
    assert (found["ok"], found["ran"], found["published"]) == (False, CONTENDERS, 1)


@pytest.mark.campaign
def test_it_finds_a_position_that_is_written_without_being_compared(
    trial: Callable[[int], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_store.AssertPosition, "validate", lambda requirement, metadata: None)
    monkeypatch.setattr(drivers, "claim", lambda connection, name, token, process, holder: True)
    monkeypatch.setattr("lakeward.driver.registry_link.RegistryLink._take", lambda link, connection, scope, name: True)
    found = next(each for each in map(trial, count(900)) if each["started"] == TWICE)
    assert not found["ok"]
    assert found["published"] > 1
