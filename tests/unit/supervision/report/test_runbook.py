"""The block names a place in the runbook for every state: it must be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.supervision.decide.health import State
from lakeward.supervision.report.advice import RUNBOOK

TEXT = (Path(__file__).parents[4] / RUNBOOK).read_text()


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_its_place_in_the_runbook(state: State) -> None:
    assert f"\n## {state.value}\n" in TEXT


def test_every_line_of_the_block_is_explained(scenes) -> None:
    words = {line[:13].strip() for made in scenes.values() for line in made.lines()[1:]} - {""}
    assert [word for word in sorted(words) if f"`{word}`" not in TEXT] == []
