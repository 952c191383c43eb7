"""The example of files, carried out on a year of weather: every row lands once, as it stands in the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.csv
import pytest

from lakeward.cli.init import create
from lakeward.demo.flights import data_folder
from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import load_project

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

EXAMPLE = Path(__file__).parents[3] / "conf" / "examples" / "weather.yaml"
BAD = [
    "JFK,2013,13,1,1,NA,NA,101,270,10,NA,0,1012,10,2014-01-01T06:00:00Z",  # breaks the rule
    "JFK,2013,13,1,1,mild,NA,50,270,10,NA,0,1012,10,2014-01-01T06:00:00Z",
    "NA,2013,13,1,1,39,NA,50,270,10,NA,0,1012,10,2014-01-01T06:00:00Z",
]


@pytest.mark.parametrize(
    "months", [2, pytest.param(12, marks=pytest.mark.campaign(held_by="test_a_year_of_weather_lands"))]
)
def test_a_year_of_weather_lands(lab: Any, tmp_path: Path, months: int) -> None:
    header, *year = (data_folder() / "weather.csv").read_text().splitlines()
    lines = [line for line in year if int(line.split(",")[2]) <= months]
    source = tmp_path / "weather.csv"
    source.write_text("\n".join([header, *lines]) + "\n")
    project = Project(tmp_path / "lake")
    create(project.root)
    arrived = project.root / "data" / "weather"
    arrived.mkdir(parents=True)
    for month in range(1, months + 1):
        rows = [line for line in lines if line.split(",")[2] == str(month)]
        (arrived / f"2013-{month:02d}.csv").write_text("\n".join([header, *rows]) + "\n")
    (arrived / "2014-01.csv").write_text("\n".join([header, *BAD]))
    (project.streams / "weather.yaml").write_text(EXAMPLE.read_text().replace("nyc.", f"{lab.namespace}."))
    loaded = load_project(project)
    assert not [problem for problem in loaded.problems if "weather" in problem.file]

    lab.run(loaded.streams["weather"].spec.document() | {"trigger": {"every": "200ms"}}, len(lines) + len(BAD))

    convert = pyarrow.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    truth = pyarrow.csv.read_csv(source, convert_options=convert)
    by_origin = truth.group_by("origin").aggregate([("temp", "count"), ("temp", "sum"), ("wind_gust", "count")])
    expected = {row["origin"]: row for row in by_origin.to_pylist()}
    columns = "origin, count(temp) AS temps, sum(temp) AS total, count(wind_gust) AS gusts"
    landed = lab.spark.sql(f"SELECT {columns} FROM lake.{lab.namespace}.weather GROUP BY origin").collect()
    assert {row["origin"]: (row["temps"], row["gusts"]) for row in landed} == {
        name: (row["temp_count"], row["wind_gust_count"]) for name, row in expected.items()
    }
    for row in landed:
        assert row["total"] == pytest.approx(expected[row["origin"]]["temp_sum"])
    assert len(lab.rows("weather", "temp")) == len(lines) == pc.count(truth["origin"]).as_py()
    kept = lab.rows("weather_quarantine", "reason, error, _file_path")
    assert sorted((row["reason"], row["error"]) for row in kept) == [
        ("decode", "origin: required, but missing or null"),
        ("decode", "temp: not DOUBLE: mild"),
        ("humid_is_a_share", "not: humid BETWEEN 0 AND 100"),
    ]
    assert {row["_file_path"][-11:] for row in kept} == {"2014-01.csv"}
