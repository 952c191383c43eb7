"""Queries of connectors are interpreted in the gate, but those of wide records."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def fast(request: pytest.FixtureRequest) -> None:
    """As `speed` says, for tests that have a session."""
    if "spark" in request.fixturenames:
        request.getfixturevalue("speed")
