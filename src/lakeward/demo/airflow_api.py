"""Client of Airflow's REST API, with the calls that the demo needs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from lakeward.platform.errors import DependencyDown, TimedOut

_ANSWER_S = 30.0
_TOKEN_S = 3600.0
_PAGE = 100
_ENDED = ("success", "failed")


@dataclass
class Airflow:
    """One Airflow, with the login of one user.

    Attributes:
        url: base URL without a path.
        user, password: of the auth manager.
    """

    url: str
    user: str
    password: str = field(repr=False)
    _token: tuple[float, str] | None = field(default=None, init=False, repr=False)

    def trigger(self, dag: str, conf: Mapping[str, Any], note: str) -> str:
        """Trigger a Dag run and return its id.

        Raises:
            DependencyDown: Airflow does not answer, or rejects the request.
        """
        body = {"logical_date": None, "conf": dict(conf), "note": note}
        run: str = self._call("POST", f"/api/v2/dags/{dag}/dagRuns", json=body)["dag_run_id"]
        return run

    def wait(self, dag: str, run: str, timeout_s: float) -> str:
        """Wait for the end of a run; returns `success` or `failed`.

        Raises:
            TimedOut: it did not end in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            state: str = self._call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}")["state"]
            if state in _ENDED:
                return state
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"The run of {dag} did not end in {timeout_s:.0f} s",
                    why=f"run {run} is {state}",
                    next=f"open {self.url}/dags/{dag}",
                    code="LW-7402",
                )
            time.sleep(1.0)

    def dags(self) -> dict[str, bool]:
        """Dag id -> whether it is paused, of every Dag Airflow has parsed."""
        dags = self._call("GET", "/api/v2/dags", params={"limit": _PAGE})["dags"]
        return {dag["dag_id"]: bool(dag["is_paused"]) for dag in dags}

    def run_counts(self) -> dict[str, dict[str, int]]:
        """Dag id -> how many of its runs succeeded and failed."""
        states: dict[str, Counter[str]] = {}
        offset = 0
        while True:
            page = self._call(
                "GET", "/api/v2/dags/~/dagRuns", params={"limit": _PAGE, "offset": offset, "order_by": "id"}
            )
            for run in page["dag_runs"]:
                states.setdefault(run["dag_id"], Counter())[run["state"]] += 1
            offset += len(page["dag_runs"])
            if not page["dag_runs"] or offset >= page["total_entries"]:
                return {dag: {word: counts[word] for word in _ENDED} for dag, counts in sorted(states.items())}

    def _call(self, method: str, path: str, **more: Any) -> Any:
        try:
            answer = httpx.request(
                method,
                self.url + path,
                headers={"Authorization": f"Bearer {self._bearer()}"},
                timeout=_ANSWER_S,
                trust_env=False,  # no proxy on loopback
                **more,
            )
            answer.raise_for_status()
        except httpx.HTTPStatusError as error:
            raise DependencyDown(
                f"Airflow rejected {method} {path}",
                why=f"{error.response.status_code}: {error.response.text[:300]}",
                next="lakeward stack status",
                code="LW-7403",
            ) from None
        except httpx.HTTPError as error:
            raise self._down(error) from None
        return answer.json()

    def _bearer(self) -> str:
        if self._token is None or time.monotonic() - self._token[0] > _TOKEN_S:
            body = {"username": self.user, "password": self.password}
            answer = httpx.post(f"{self.url}/auth/token", json=body, timeout=_ANSWER_S, trust_env=False)
            answer.raise_for_status()
            self._token = (time.monotonic(), answer.json()["access_token"])
        return self._token[1]

    def _down(self, error: httpx.HTTPError) -> DependencyDown:
        return DependencyDown(
            "Airflow does not answer",
            why=f"{self.url}: {error or type(error).__name__}",
            next="lakeward stack status",
            code="LW-7401",
        )
