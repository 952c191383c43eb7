from __future__ import annotations

import json
from typing import Any

import psycopg2
import pytest

from lakeward.platform import machine
from lakeward.platform.errors import DependencyDown
from lakeward.registry import engine


@pytest.mark.parametrize(("starved", "timeout_s"), [(False, 5), (True, 20)])
def test_a_starved_machine_waits_longer_for_the_registry_before_it_counts_as_lost(
    monkeypatch: pytest.MonkeyPatch, starved: bool, timeout_s: int
) -> None:
    asked: list[dict[str, Any]] = []

    def connect(*_: Any, **parameters: Any) -> None:
        asked.append(parameters)
        raise psycopg2.OperationalError("no server here")

    monkeypatch.setattr(machine, "starved", lambda: starved)
    monkeypatch.setattr(psycopg2, "connect", connect)
    url = f"postgresql://nobody@127.0.0.1:1/of_{starved}"  # the engine of a URL is kept for the process
    with pytest.raises(DependencyDown), engine.connect(url, None):
        pass
    assert {each["connect_timeout"] for each in asked} == {timeout_s}


@pytest.mark.parametrize("text", ['{"a": [1, 2.5, null]}', str(10**40), "[" * 500 + "]" * 500, '"é\\u0001"'])
def test_a_stored_document_is_read_whatever_its_depth_and_its_numbers(text: str) -> None:
    assert engine._document(text) == json.loads(text)
