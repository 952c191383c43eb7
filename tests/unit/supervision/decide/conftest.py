"""Rows of the registry, made by hand: everything here is pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeward.registry.drivers import Driver
from lakeward.registry.leases import Lease
from lakeward.registry.observations import Observation
from lakeward.registry.restarts import Restart
from lakeward.registry.streams import Stream
from lakeward.supervision.backends.base import Job, Life

NOW = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
HANDLE = {"pid": 77, "start_time": 1.0, "boot_id": "b", "host": "h"}


class Make:
    """Rows with sensible values; name what matters."""

    now = NOW

    def stream(self, name: str = "flights", **values: Any) -> Stream:
        base = {
            "desired": "running", "generation": 1, "pending_generation": None, "driver": "nyc", "state": "healthy",
            "why": "", "since": NOW - timedelta(hours=1), "run_after": None, "hold_until": None, "blocked": None,
            "removed_at": None, "updated_at": NOW,
        }  # fmt: skip
        return Stream(id=name, **{**base, **values})

    def driver(self, name: str = "nyc", **values: Any) -> Driver:
        launched_s = values.pop("launched_s", 600.0)
        base = {
            "token": "t1", "backend": "local", "handle": HANDLE, "host": "h", "log": "/drivers/nyc/1",
            "state": "running", "heartbeat": NOW, "exit_code": None, "error": None, "spark_ui": None, "age_s": 1.0,
        }  # fmt: skip
        moment = NOW - timedelta(seconds=launched_s)
        return Driver(name=name, launched_at=moment, launched_s=launched_s, **{**base, **values})

    def lease(self, scope: str = "driver", name: str = "nyc", token: str = "t1", left_s: float = 12.0) -> Lease:
        return Lease(scope, name, token, "h", NOW + timedelta(seconds=left_s), live=left_s > 0)

    def job(self, token: str = "t1", life: Life = Life.ALIVE, driver: str = "nyc", **values: Any) -> Job:
        return Job(driver, token, life, **{"handle": HANDLE, "host": "h", "log": "/drivers/nyc/1", **values})

    def seen(self, stream: str = "flights", **values: Any) -> Observation:
        age = values.get("commit_age_s", 4.0)
        behind = None if values.get("lag_records") else 0.0
        base = {
            "at": NOW, "run_id": "r", "query_id": "q", "batch_id": 812, "seq": 812, "snapshot_id": 1,
            "committed_at": None if age is None else NOW - timedelta(seconds=age), "progress": None, "lag_records": 0,
            "lag_s": behind, "complete_through": None, "query_state": "running", "error": None, "age_s": 1.0,
            "commit_age_s": age,
        }  # fmt: skip
        return Observation(stream=stream, **{**base, **values})

    def failure(
        self, age_s: float = 30.0, wait_s: float | None = 5.0, stream: str | None = None, **values: Any
    ) -> Restart:
        base = {"failure_class": "infra", "error": "Driver nyc was killed by SIGKILL", "exit_code": None, "attempt": 1}
        due = None if wait_s is None else NOW + timedelta(seconds=wait_s)
        return Restart(
            id=1, driver="nyc", stream=stream, at=NOW - timedelta(seconds=age_s), next_attempt_at=due,
            age_s=age_s, due=wait_s is not None and wait_s <= 0, **{**base, **values},
        )  # fmt: skip


@pytest.fixture
def make() -> Make:
    return Make()
