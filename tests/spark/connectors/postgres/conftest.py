"""One database for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeward.platform.runtime import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from postgres_rig import Rig


@pytest.fixture
def rig(spark: SparkSession, postgres: Any, database: str) -> Rig:
    where = Database(host=postgres.host, port=postgres.port, database=database, user=postgres.user)
    return Rig(spark, where, postgres.pgpass)
