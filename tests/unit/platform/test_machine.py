from __future__ import annotations

import os

import pytest

from lakeward.platform import machine


@pytest.mark.parametrize(
    ("load", "cpus", "starved"), [(8.0, 2, False), (8.1, 2, True), (40.0, 16, False), (5.0, 1, True)]
)
def test_a_machine_is_starved_when_many_wait_for_each_cpu(monkeypatch, load, cpus, starved) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    assert machine.starved() is starved
    assert machine.patience(30.0) == (120.0 if starved else 30.0)


def test_a_system_without_a_load_is_not_starved(monkeypatch) -> None:
    def unknown() -> tuple[float, float, float]:
        raise OSError("no load")

    monkeypatch.setattr(os, "getloadavg", unknown)
    assert not machine.starved()
