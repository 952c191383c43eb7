"""The figures a person reads after `stack up`."""

from __future__ import annotations

import pytest

from lakeward.stack.up import critical_path


@pytest.mark.parametrize(
    ("seconds", "path"),
    [
        (
            {"postgres": 2, "airflow-database": 6, "airflow-scheduler": 9, "airflow-api-server": 12, "kafka": 9},
            ["postgres", "airflow-database", "airflow-api-server"],
        ),
        ({"postgres": 1, "airflow-api-server": 3, "connect": 20}, ["connect"]),
        ({"postgres": 2, "deploy": 3, "kafka": 4}, ["postgres", "deploy"]),
    ],
)
def test_the_longest_chain_is_named(seconds: dict[str, float], path: list[str]) -> None:
    assert critical_path({**seconds, "total": 99}) == path
