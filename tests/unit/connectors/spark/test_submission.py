"""Submission of drivers in cluster mode: the request, and each answer of a master that is not a yes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from spark_master import SparkMaster, running

from lakeward.connectors.spark import submission
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import ClusterPlace, Lake, Launch, Runtime


@pytest.fixture
def master() -> Iterator[SparkMaster]:
    with running() as found:
        yield found


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "one.jar").touch()
    runtime = Runtime(
        registry_url_file=tmp_path / "secrets" / "registry.url", pgpass=tmp_path / "pgpass",
        lake=Lake(warehouse="/warehouse"), checkpoints="/checkpoints", drivers=tmp_path, jars=tmp_path / "jars",
    )  # fmt: skip
    conf = {"spark.master": "spark://h:7077", "spark.driver.memory": "2g", "spark.executor.cores": "2"}
    return Launch(driver="big", token="the-token", folder=tmp_path, runtime=runtime, conf=conf, id="abc")


def request() -> dict[str, object]:
    return {"action": "CreateSubmissionRequest", "clientSparkVersion": "4.1.3"}


def test_the_request_names_the_launch_and_has_no_secret(launch: Launch) -> None:
    made = submission.document(launch, "/opt/python", "4.1.3")
    assert made["appArgs"] == ["-m", "", "lakeward.driver.cluster", "abc", str(launch.runtime.registry_url_file)]
    assert made["environmentVariables"] == {}
    properties = made["sparkProperties"]
    assert properties["spark.driver.memory"] == "2g"
    assert properties["spark.pyspark.driver.python"] == "/opt/python"
    assert properties["spark.driver.supervise"] == "false"
    assert "the-token" not in json.dumps(made)


def test_a_driver_is_submitted_listed_and_killed(master: SparkMaster) -> None:
    name = submission.submit(master.place, request())
    assert submission.listing(master.place).drivers[name] == submission.Submission(name, "RUNNING", "node-one")
    assert submission.status(master.place, name) == ("RUNNING", "")
    assert submission.kill(master.place, name)
    assert submission.status(master.place, name)[0] == "KILLED"
    assert not submission.kill(master.place, "driver-of-another")
    assert submission.status(master.place, "driver-of-another") == (None, "")


def test_a_master_that_is_away_is_a_dependency() -> None:
    place = ClusterPlace(master="spark://127.0.0.1:1", rest="http://127.0.0.1:1", ui="http://127.0.0.1:1")
    with pytest.raises(DependencyDown) as error:
        submission.submit(place, request())
    assert error.value.code == "LW-2520"
    assert "Connection refused" in error.value.why
    with pytest.raises(DependencyDown) as error:
        submission.listing(place)
    assert error.value.code == "LW-2521"


def test_a_gateway_that_is_switched_off_is_named_with_its_switch(master: SparkMaster) -> None:
    master.answers["/v1"] = (404, "<html>Not found</html>")
    with pytest.raises(LakewardError) as error:
        submission.submit(master.place, request())
    assert error.value.code == "LW-2522"
    assert "spark.master.rest.enabled=true" in error.value.next
    assert not master.created


@pytest.mark.parametrize("theirs", ["3.5.1", ""])
def test_another_version_of_spark_is_refused_before_anything_starts(master: SparkMaster, theirs: str) -> None:
    master.version = theirs
    with pytest.raises(LakewardError) as error:
        submission.submit(master.place, request())
    assert error.value.code == "LW-2523"
    assert "needs 4.1.3" in error.value.why
    assert not master.created


def test_a_request_that_is_refused_says_why(master: SparkMaster) -> None:
    said = "Malformed request: no mainClass\nstack"
    refusal = {"action": "ErrorResponse", "message": said, "serverSparkVersion": "4.1.3"}
    master.answers["/v1/submissions/create"] = (400, json.dumps(refusal))
    with pytest.raises(LakewardError) as error:
        submission.submit(master.place, request())
    assert (error.value.code, error.value.why) == ("LW-2523", "Malformed request: no mainClass")


def test_a_standby_is_passed_over(master: SparkMaster) -> None:
    said = (
        "Exception from the cluster:\njava.lang.Exception: Current state is not alive: STANDBY.\n\tat Master.scala:494"
    )
    standby = {"success": False, "message": said, "serverSparkVersion": "4.1.3"}
    master.answers["/v1"] = (200, json.dumps(standby))
    with pytest.raises(DependencyDown) as error:
        submission.submit(master.place, request())
    assert error.value.why.endswith("this master is a standby, or has just started")
    master.status = "STANDBY"
    with pytest.raises(DependencyDown) as error:
        submission.listing(master.place)
    assert "the master is standby" in error.value.why


def test_services_are_at_the_default_ports_of_every_master() -> None:
    place = ClusterPlace(master="spark://one:7077,two:7078")
    assert submission.urls(place, "rest") == ["http://one:6066", "http://two:6066"]
    assert submission.urls(place, "ui") == ["http://one:8080", "http://two:8080"]
    assert submission.urls(place.model_copy(update={"ui": "http://proxy:80/spark/"}), "ui") == ["http://proxy:80/spark"]
