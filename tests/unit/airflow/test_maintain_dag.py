"""Which tables a run of `tables_maintain` is for."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow.maintain_dag import chosen
from lakeward.platform.runtime import Lake, Project, Runtime


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """A deployment that is not reached."""
    return Runtime(
        registry_url_file=tmp_path / "none", lake=Lake(warehouse=str(tmp_path)), checkpoints=str(tmp_path),
        drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip


@pytest.mark.parametrize("table", ["", " ", None])
def test_a_run_without_a_table_fails_and_says_what_to_name(runtime: Runtime, tmp_path: Path, table: str | None) -> None:
    with pytest.raises(AirflowFailException, match="Name a table: "):
        chosen(runtime, Project(tmp_path), {"table": table}, [])


def test_the_tables_of_the_events_are_maintained_once_each(runtime: Runtime, tmp_path: Path) -> None:
    extras = [{"tables": ["n.a", "n.b"]}, {}, {"tables": ["n.a"]}]
    assert chosen(runtime, Project(tmp_path), {}, extras) == ["n.a", "n.b"]
