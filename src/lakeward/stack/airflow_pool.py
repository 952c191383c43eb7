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
"""Airflow's default size of the default pool; another size was set by a user and is preserved."""
_ANSWER_S = 30.0
_RETRY_S = 1.0
PATIENCE_S = 180.0
"""On a busy machine the API server answers late after its start."""


def ensure(site: StackContext, patience_s: float = PATIENCE_S) -> None:
    """Create the pool with one slot, and reduce the default pool by one slot.

    Raises:
        DependencyDown: Airflow's API refuses, or does not answer within `patience_s`.
    """
    end = time.monotonic() + patience_s
    while True:
        try:
            with httpx.Client(base_url=site.airflow, timeout=_ANSWER_S, trust_env=False) as client:
                return _ensure(client, json.loads(passwords_file_of(site).read_text())[ADMIN])
        except httpx.HTTPError as error:
            if _refused(error) or time.monotonic() > end:
                raise DependencyDown(
                    "Cannot set the pools of Airflow",
                    why=f"{site.airflow}: {error}",
                    next="lakeward stack up   tries again",
                    code="LW-7003",
                ) from None
        time.sleep(_RETRY_S)


def _refused(error: httpx.HTTPError) -> bool:
    """Whether the API refused. A conflict is no refusal: an earlier, timed-out request may have created the pool."""
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
