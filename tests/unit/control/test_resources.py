from __future__ import annotations

from lakeward.control.resources import QUICK, conf
from lakeward.spec.settings import Driver
from lakeward.spec.types import Memory


def test_the_largest_wish_wins() -> None:
    specs = [
        {"resources": {"cores": 4}},
        {"resources": {"driver_memory": "512m"}},
        {"resources": {"driver_memory": "3g"}},
        {},
    ]
    assert conf(specs, Driver(cores=2, memory=Memory("1g"))) == {
        "spark.master": "local[4,4]",
        "spark.driver.memory": "3g",
    }


def test_without_wishes_the_project_decides() -> None:
    driver = Driver(cores=3, memory=Memory("2g"), spark={"spark.driver.maxResultSize": "1g"})
    assert conf([], driver) == {
        "spark.master": "local[3,4]",
        "spark.driver.memory": "2g",
        "spark.driver.maxResultSize": "1g",
    }


def test_a_driver_of_minutes_leaves_the_second_compiler_out() -> None:
    assert "spark.driver.extraJavaOptions" not in conf([], Driver())
    assert conf([], Driver(compiler="quick"))["spark.driver.extraJavaOptions"] == QUICK
    assert "ReservedCodeCacheSize=240m" in QUICK, (
        "as much as with both compilers: what Spark makes fills 48 MB in minutes"
    )
