"""Airflow pool of supervision: one reserved slot, so that reports and maintenance never delay a reconcile pass."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx

from lakeward.platform.errors import DependencyDown
from lakeward.stack.airflow_config import ADMIN, PARALLELISM, passwords_file_of
from lakeward.stack.site import StackContext

NAME = "lakeward_supervision"
DEFAULT = "default_pool"
UNTOUCHED = 128
"""Airflow's own size of the default pool; another one was chosen by somebody, and stays."""
_ANSWER_S = 30.0
PATIENCE_S = 180.0
"""On a busy machine an API server that is up may still take its time for the first answers."""


def ensure(site: StackContext, patience_s: float = PATIENCE_S) -> None:
    """Make the pool of one slot, and leave the other tasks one slot fewer than there are.

    Raises:
        DependencyDown: Airflow's API refuses, or did not answer for `patience_s`.
    """
    end = time.monotonic() + patience_s
    while True:
        try:
            with httpx.Client(base_url=site.airflow, timeout=_ANSWER_S, trust_env=False) as client:
                return _ensure(client, json.loads(passwords_file_of(site).read_text())[ADMIN])
        except httpx.HTTPError as error:
            if _refused(error) or time.monotonic() > end:
                raise DependencyDown(
                    "Airflow's pools could not be set",
                    why=f"{site.airflow}: {error}",
                    next="lakeward stack up   tries again",
                    code="LW-7003",
                ) from None
        time.sleep(1.0)


def _refused(error: httpx.HTTPError) -> bool:
    """A conflict is none: a request whose answer came too late may have made the pool meanwhile."""
    if not isinstance(error, httpx.HTTPStatusError):
        return False
    return error.response.is_client_error and error.response.status_code != httpx.codes.CONFLICT


def _ensure(client: httpx.Client, password: str) -> None:
    token = _answer(client.post("/auth/token", json={"username": ADMIN, "password": password}))["access_token"]
    client.headers["Authorization"] = f"Bearer {token}"
    if client.get(f"/api/v2/pools/{NAME}").status_code == httpx.codes.NOT_FOUND:
        pool = {"name": NAME, "slots": 1, "description": "streams_reconcile", "include_deferred": False}
        _answer(client.post("/api/v2/pools", json=pool))
    if _answer(client.get(f"/api/v2/pools/{DEFAULT}"))["slots"] == UNTOUCHED:
        fewer = {"pool": DEFAULT, "slots": PARALLELISM - 1}
        _answer(client.patch(f"/api/v2/pools/{DEFAULT}", params={"update_mask": "slots"}, json=fewer))


def _answer(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json()
