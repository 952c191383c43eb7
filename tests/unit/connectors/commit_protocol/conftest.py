"""The sinks that the contract runs against."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from contract_rig import FolderRig, MemoryRig, Rig

from lakeward.connectors.commit_protocol import attempt


@pytest.fixture(params=["memory", "folder"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    """An empty sink."""
    return MemoryRig() if request.param == "memory" else FolderRig(tmp_path / "out")


@pytest.fixture
def held() -> Iterator[ExitStack]:
    """What a test arms; disarmed at its end."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else is waited for here."""
    monkeypatch.setattr(attempt, "_FIRST_PAUSE_S", 0.001)
