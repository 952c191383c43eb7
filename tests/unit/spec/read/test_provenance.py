from __future__ import annotations

from pathlib import Path

from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import load_project

ROOT = Path(__file__).parents[4]


def test_every_value_of_the_demo_has_an_origin_with_a_reason():
    loaded = load_project(Project(ROOT))
    assert loaded.ok, [problem.text() for problem in loaded.problems]
    assert sorted(loaded.streams) == ["delay_alerts", "departures_hourly", "flights"]
    for stream in loaded.streams.values():
        for path, origin in stream.origins.items():
            assert not origin.endswith("see docs/reference"), f"{stream.spec.id}: {path} has a default without a reason"


def test_the_demo_is_what_the_readme_says():
    specs = {name: each.spec for name, each in load_project(Project(ROOT)).streams.items()}
    assert {spec.driver for spec in specs.values()} == {"demo"}
    assert {name: spec.lineage for name, spec in specs.items()} == {
        "flights": "rows",
        "departures_hourly": "none",
        "delay_alerts": "rows",
    }
    assert {name: spec.sink.label for name, spec in specs.items()} == {
        "flights": "nyc.flights",
        "departures_hourly": "nyc.departures_hourly",
        "delay_alerts": "kafka:delay_alerts",
    }
    assert [field.sql for field in specs["flights"].sink.iceberg.partition_by] == ["months(`time_hour`)", "`origin`"]
