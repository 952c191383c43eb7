"""The audit's scan of a PostgreSQL table; real tables are read in tests/spark/connectors."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lakeward.connectors.postgres import audit
from lakeward.connectors.postgres.name import Name
from lakeward.platform.errors import Internal


def test_rows_of_one_stream_are_not_counted_apart() -> None:
    closed = cast(Any, None)  # refused before the connection is used
    with pytest.raises(Internal, match="stream flights alone"):
        next(audit.scan(closed, Name.of("public.flights"))(["flights"], "flights"))
