"""The rounds in which metrics are computed, where none needs rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakeward.platform.errors import Internal
from lakeward.quality.engine.bridge.passes import Metrics


def test_a_metric_whose_need_is_missing_ends_the_rounds() -> None:
    other: Any = SimpleNamespace(id="rows", metric_name="table.row_count", metric_dependencies={})
    metric: Any = SimpleNamespace(id="mean", metric_name="column.mean", metric_dependencies={"table.row_count": other})
    nothing = cast(Any, None)  # no rows and no engine are asked for
    with pytest.raises(Internal, match=r"column\.mean"):
        Metrics(nothing, nothing).compute([metric])
