"""What spark-submit is given, and what its refusals mean; the texts are those of Spark 4.1.3 and Hadoop 3.4.2."""

from __future__ import annotations

import stat
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from lakeward.connectors.yarn import submit
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.failures import FailureClass, classify
from lakeward.platform.runtime import Lake, Launch, Runtime, YarnPlace

PLACE = YarnPlace(queue="streams", hadoop_conf="/etc/hadoop", resource_managers=("http://rm:8088",), deployment="abc")
FAILED = "org.apache.hadoop.yarn.exceptions.YarnException: Failed to submit application_1_1 to YARN : "


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "one.jar").touch()
    runtime = Runtime(
        registry_url_file=tmp_path / "registry.url", lake=Lake(warehouse="/w"), checkpoints="/c", drivers=tmp_path,
        jars=tmp_path / "jars",
    )  # fmt: skip
    conf = {
        "spark.master": "yarn", "spark.driver.memory": "2g", "spark.yarn.tags": "theirs",
        "spark.sql.shuffle.partitions": "9",
        "spark.yarn.maxAppAttempts": "4", "spark.pyspark.python": "/opt/lakeward/bin/python",
    }  # fmt: skip
    return Launch(driver="Big", token="secret-token", folder=tmp_path, runtime=runtime, conf=conf, id="l1", yarn=PLACE)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of pyspark's spark-submit: a script that a test writes."""
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    (home / "jars").mkdir()
    monkeypatch.setattr(submit.jars, "pyspark_jars", lambda: home / "jars")
    return home / "bin" / "spark-submit"


def script(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(stat.S_IRWXU)


def test_what_is_submitted_names_the_launch_and_no_secret(launch: Launch, program: Path, tmp_path: Path) -> None:
    launch.runtime.registry_url_file.write_text("postgresql://u:pw@h/db")
    given = f'echo "$@" > {tmp_path}/arguments; env > {tmp_path}/environment'
    script(program, f'{given}; cp "$6" {tmp_path}/conf; echo "INFO Submitted application application_17_0042"')
    assert submit.submit(launch, PLACE) == "application_17_0042"
    arguments, conf = (tmp_path / "arguments").read_text(), (tmp_path / "conf").read_text()
    assert arguments.rstrip().endswith(f"-m  lakeward.driver.yarn l1 {launch.runtime.registry_url_file}")
    assert "--deploy-mode cluster" in arguments and "spark-internal" in arguments
    shown = arguments + conf + (tmp_path / "environment").read_text()
    assert "secret-token" not in shown and "pw@h" not in shown
    assert "HADOOP_CONF_DIR=/etc/hadoop" in (tmp_path / "environment").read_text()
    lines = dict(line.split(" ", 1) for line in conf.splitlines())
    assert lines["spark.yarn.tags"] == f"lakeward-abc,{submit.launch_tag('secret-token')},lakeward-driver-big"
    assert (lines["spark.yarn.maxAppAttempts"], lines["spark.yarn.queue"]) == ("1", "streams")
    assert lines["spark.driver.memory"] == "2g"
    assert "spark.sql.shuffle.partitions" not in lines, "the session has it"


def test_the_environment_of_airflow_is_not_handed_on(
    launch: Launch, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://secret")
    monkeypatch.setenv("KRB5CCNAME", "/tmp/ticket")
    script(program, f"env > {tmp_path}/environment; echo Submitted application application_1_1")
    submit.submit(launch, PLACE)
    environment = (tmp_path / "environment").read_text()
    assert "AIRFLOW" not in environment and "KRB5CCNAME=/tmp/ticket" in environment


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (FAILED + "Application application_1_1 submitted by user root to unknown queue: nope", "LW-2567"),
        (FAILED + "Queue root.closed is STOPPED. Cannot accept submission of application: application_1_1", "LW-2567"),
        (FAILED + "Application application_1_1 submitted by user root to non-leaf queue : root", "LW-2567"),
        (
            "Caused by: org.apache.hadoop.security.AccessControlException: User airflow does not have permission to "
            "submit application_1_1 to queue small",
            "LW-2568",
        ),
        (FAILED + "Queue root.small already has 10 applications, cannot accept submission", "LW-2576"),
        (
            "java.io.IOException: DestHost:destPort rm:8032 , LocalHost:localPort a/1:0. Failed on local exception: "
            "org.apache.hadoop.security.AccessControlException: Client cannot authenticate via:[TOKEN, KERBEROS]",
            "LW-2572",
        ),
        (
            "javax.security.sasl.SaslException: GSS initiate failed [Caused by GSSException: No valid credentials]",
            "LW-2572",
        ),
        ("java.net.ConnectException: Call From a/1 to rm:8032 failed on connection exception", "LW-2575"),
    ],
)
def test_what_a_person_can_get_wrong_is_a_dependency_with_its_words(
    launch: Launch, program: Path, said: str, code: str
) -> None:
    script(program, f'echo "{said}" >&2; exit 1')
    with pytest.raises(DependencyDown) as error:
        submit.submit(launch, PLACE)
    assert error.value.code == code, error.value
    assert error.value.next
    assert classify(error=error.value, text=str(error.value)) is FailureClass.DEPENDENCY


def test_a_driver_that_is_too_large_is_no_matter_of_time(launch: Launch, program: Path) -> None:
    said = (
        "java.lang.IllegalArgumentException: Required AM memory (8192+256 MB) is above the max threshold (4096 MB) of"
    )
    script(program, f'echo "{said} this cluster" >&2; exit 1')
    with pytest.raises(LakewardError) as error:
        submit.submit(launch, PLACE)
    assert error.value.code == "LW-2573" and not isinstance(error.value, DependencyDown)
    assert "8192+256 MB" in error.value.why


def test_what_is_not_known_is_repeated(launch: Launch, program: Path) -> None:
    script(program, "echo JAVA_HOME is not set >&2; exit 1")
    with pytest.raises(LakewardError) as error:
        submit.submit(launch, PLACE)
    assert (error.value.code, error.value.why) == ("LW-2571", "exit code 1: JAVA_HOME is not set")


def test_a_program_that_hangs_is_ended_with_its_children(
    launch: Launch, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "SUBMIT_S", 0.5)
    script(program, f"sleep 600 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(LakewardError) as error:
        submit.submit(launch, PLACE)
    assert error.value.why.startswith("it did not end within")
    child = int((tmp_path / "child").read_text())
    end = time.monotonic() + 60  # it was sent SIGKILL; a busy machine lets it end later
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < end, "the program's child runs on"
            time.sleep(0.05)


def test_an_application_that_was_submitted_before_the_program_failed_is_known(launch: Launch, program: Path) -> None:
    script(program, "echo Submitted application application_1_7; exit 137")
    assert submit.submit(launch, PLACE) == "application_1_7"
    script(program, f'echo Submitted application application_1_7; echo "{FAILED}to unknown queue: x" >&2; exit 1')
    with pytest.raises(DependencyDown, match="does not take"):
        submit.submit(launch, PLACE)
