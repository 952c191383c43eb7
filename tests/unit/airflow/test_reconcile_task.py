"""The task of `streams_reconcile` as Airflow calls it, with a real registry."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.execution_time.context import OutletEventAccessors
from sqlalchemy import text

from lakeward.airflow import assets, reconcile_dag
from lakeward.platform import ports
from lakeward.platform.runtime import Home, Lake, Runtime
from lakeward.registry import engine, events, generations, observations, streams
from lakeward.supervision import announce


@pytest.fixture
def reconcile(own_registry_url: str, postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """The task's function; its addresses are those of an Airflow with the usual connections."""
    home = Home(tmp_path / "home")
    url = tmp_path / "registry.url"
    url.write_text(own_registry_url)
    addresses = Runtime(
        registry_url_file=url, pgpass=postgres.pgpass, lake=Lake(warehouse=str(tmp_path)),
        checkpoints=str(tmp_path), drivers=home.drivers, jars=tmp_path,
    )  # fmt: skip
    home.runtime_file.parent.mkdir(parents=True)
    home.runtime_file.write_text(addresses.model_dump_json())
    monkeypatch.setenv("LAKEWARD_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("LAKEWARD_HOME", str(home.root))
    for name in ("registry", "kafka", "notify"):
        monkeypatch.setenv(f"AIRFLOW_CONN_LAKEWARD_{name.upper()}", '{"conn_type": "generic"}')
    task = reconcile_dag.build().get_task("reconcile")

    def run(ti: Any = None, outlet: OutletEventAccessors | None = None) -> None:
        task.python_callable(ti=ti, outlet_events=OutletEventAccessors() if outlet is None else outlet)

    return run


def test_what_is_past_its_keep_time_goes_with_a_pass(reconcile: Callable, own_registry_url: str, postgres: Any) -> None:
    with engine.connect(own_registry_url, postgres.pgpass) as connection:
        events.record(connection, "driver", "nyc", "launched", "of last year")
        connection.execute(text("UPDATE events SET at = now() - interval '365 days'"))
        events.record(connection, "driver", "nyc", "launched", "of today")
    reconcile()
    with engine.connect(own_registry_url, postgres.pgpass) as connection:
        assert [each.text for each in events.newest(connection, "driver", "nyc")] == ["of today"]
        assert [each.kind for each in events.newest(connection, "stack", "registry")] == ["purged"]


def test_a_pass_leaves_it_to_the_look_at_the_tables_unless_that_stays_away(
    reconcile: Callable, own_registry_url: str, postgres: Any
) -> None:
    def purged() -> int:
        with engine.connect(own_registry_url, postgres.pgpass) as connection:
            return len(events.newest(connection, "stack", "registry"))

    def later(hours: int) -> None:
        with engine.connect(own_registry_url, postgres.pgpass) as connection:
            connection.execute(text(f"UPDATE events SET at = now() - interval '{hours} hours'"))

    reconcile()
    later(7)  # the look at the tables is due to do it
    reconcile()
    assert purged() == 1
    later(13)
    reconcile()
    assert purged() == 2


@pytest.mark.parametrize(
    ("days", "told"),
    [
        (300, "Removed runs older than 14d and their logs; some remain until the next day"),
        (1, "Removed runs older than 14d and their logs"),  # no run is past its time: Airflow is not even started
    ],
)
def test_a_cleaning_of_airflow_that_fails_is_not_tried_again_with_the_next_pass(
    reconcile: Callable, own_registry_url: str, postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    days: float, told: str,
) -> None:  # fmt: skip
    own = tmp_path / "home" / "airflow"
    own.mkdir()
    (own / "airflow.cfg").write_text(
        f"[database]\nsql_alchemy_conn = postgresql+psycopg2://nobody@127.0.0.1:{ports.any_free()}/airflow\n"
    )
    monkeypatch.setenv("AIRFLOW_HOME", str(own))
    run = tmp_path / "home" / "logs" / "tasks" / "dag_id=streams_reconcile" / "run_id=1"
    run.mkdir(parents=True)
    os.utime(run, (time.time() - days * 86_400,) * 2)
    for _ in range(2):
        reconcile()
        with engine.connect(own_registry_url, postgres.pgpass) as connection:
            assert [each.text for each in events.newest(connection, "stack", "airflow")] == [told]
    assert run.exists() == (days < 14)


def test_what_cannot_be_removed_makes_no_pass_red(reconcile: Callable, own_registry_url: str, postgres: Any) -> None:
    with engine.connect(own_registry_url, postgres.pgpass) as connection:
        streams.accept(connection, "flights", generation=1, driver="nyc", desired="stopped")
        connection.execute(text("DROP TABLE plans"))  # a purge goes through it, a pass does not
    reconcile()
    with engine.connect(own_registry_url, postgres.pgpass) as connection:
        assert events.newest(connection, "stack", "registry") == []
        assert set(announce.read(connection)) == {"flights"}, "what comes after it was done"


class Busy:
    """What a task can ask of other Dags: whether `quality_check` waits or works."""

    def __init__(self, runs: int) -> None:
        self.runs = runs

    def get_dr_count(self, *, dag_id: str, states: list[str]) -> int:
        assert (dag_id, states) == ("quality_check", ["queued", "running"])
        return self.runs


def test_what_landed_starts_a_check_once_and_none_while_one_is_at_work(
    reconcile: Callable, own_registry_url: str, postgres: Any, tmp_path: Path
) -> None:
    (tmp_path / "project" / "expectations").mkdir(parents=True)
    (tmp_path / "project" / "expectations" / "nyc.flights.yaml").write_text("table: nyc.flights\n")
    with engine.connect(own_registry_url, postgres.pgpass) as connection:
        streams.accept(connection, "flights", generation=1, driver="nyc")
        generations.add(
            connection, stream="flights", generation=1, digest="d", sql=None, code={}, versions={}, author="test",
            spec={"id": "flights", "sink": {"iceberg": {"table": "nyc.flights"}}}, checkpoint="c",
        )  # fmt: skip
        observations.record(connection, "flights", committed_at=datetime.now(UTC), snapshot_id=7)

    def started(runs: int) -> list[Any]:
        outlet = OutletEventAccessors()
        reconcile(Busy(runs), outlet)
        made = outlet[assets.of_streams()].asset_alias_events
        return [each.extra for each in made if each.dest_asset_key.name == "lakeward_tables_landed"]

    assert started(1) == []
    assert started(0) == [{"tables": ["nyc.flights"]}]
    assert started(0) == []
