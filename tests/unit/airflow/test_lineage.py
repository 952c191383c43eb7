from __future__ import annotations

import asyncio
import os

import pytest

from lakeward.airflow import lineage
from lakeward.platform.errors import DependencyDown


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)


def test_without_a_configuration_it_ends_at_once() -> None:
    asyncio.run(asyncio.wait_for(lineage.send_forever(), 20))


@pytest.mark.parametrize("failure", [DependencyDown("the registry is away", code="LW-6005"), RuntimeError("odd")])
def test_it_goes_on_after_any_failure(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    passes: list[int] = []
    ended = asyncio.Event()

    async def one_pass(client: object) -> str:
        passes.append(1)
        if len(passes) == 1:
            raise failure
        if len(passes) == 3:
            ended.set()
        return ""

    async def run() -> None:
        sending = asyncio.create_task(lineage.send_forever())
        await asyncio.wait_for(ended.wait(), 20)
        sending.cancel()

    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(lineage, "_pass", one_pass)
    monkeypatch.setattr(lineage, "PAUSE_S", 0.01)
    monkeypatch.setattr(lineage, "_AFTER_ERROR_S", 0.01)
    asyncio.run(run())
