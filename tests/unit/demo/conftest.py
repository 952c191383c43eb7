from __future__ import annotations

import pyarrow as pa
import pytest

from lakeward.demo import flights


@pytest.fixture(scope="session")
def year() -> pa.Table:
    """All flights of 2013, read once."""
    return flights.load()
