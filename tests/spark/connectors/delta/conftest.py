"""One table for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from lakeward.platform.runtime import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from delta_rig import Rig


@pytest.fixture
def rig(spark: SparkSession, lake: Lake) -> Iterator[Rig]:
    yield Rig(spark, lake, f"ns_{uuid4().hex[:8]}.flights").create()
