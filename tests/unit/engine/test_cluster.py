"""What a driver is told whose executors are on a cluster, before any Spark."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from lakeward import jars
from lakeward.connectors.spark import master
from lakeward.engine import cluster, session
from lakeward.jars.java import ROOM_FOR_CLASSES
from lakeward.platform import ports
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import ClusterPlace, Lake, Launch, Runtime, YarnPlace
from lakeward.spec.model.types import SparkMaster

MASTER = "spark://127.0.0.1:7077"


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    runtime = Runtime(
        registry_url_file=tmp_path / "registry.url", lake=Lake(warehouse=str(tmp_path)), checkpoints=str(tmp_path),
        drivers=tmp_path, jars=jars.spark_folder(), connections=tmp_path / "secrets",
    )  # fmt: skip
    conf = {"spark.master": MASTER, "spark.authenticate": "true"}
    (tmp_path / "launch").mkdir()
    return Launch(driver="big", token="t", folder=tmp_path / "launch", runtime=runtime, conf=conf)


def secret(launch: Launch, text: str, mode: int = 0o600) -> Path:
    file = master.secret_file(launch.runtime, launch.driver)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def test_executors_get_the_verified_jars_from_the_driver_and_find_its_address(launch) -> None:
    assert cluster.master_of(launch) == MASTER
    found = session.conf(launch, "10.0.0.7")
    names = {Path(jar).name for jar in found["spark.jars"].split(",")}
    assert names == {jar.name for jar in (*jars.spark_classpath(), *jars.own.libraries())}
    assert (found["spark.driver.host"], found["spark.driver.bindAddress"]) == ("10.0.0.7", "10.0.0.7")
    assert session.conf(launch, "127.0.0.1")["spark.driver.bindAddress"] == "127.0.0.1"


def test_a_driver_on_yarn_keeps_the_mode_of_its_application_master(launch) -> None:
    on_yarn = launch.model_copy(update={"conf": {"spark.master": "yarn"}, "yarn": YarnPlace()})
    found = session.conf(on_yarn, "node-one")
    # `client` would make its context submit a second application.
    assert "spark.submit.deployMode" not in found
    assert (found["spark.master"], found["spark.driver.host"]) == ("yarn", "node-one")
    assert cluster.master_of(on_yarn) is None, "no master of Spark's own is asked"
    standalone = launch.model_copy(update={"cluster": ClusterPlace(master=MASTER)})
    assert session.conf(standalone, "node-one")["spark.submit.deployMode"] == "client"


def test_a_driver_that_works_by_itself_serves_nothing(launch) -> None:
    alone = launch.model_copy(update={"conf": {}})
    assert cluster.master_of(alone) is None
    found = session.conf(alone)
    assert found["spark.jars"] == ",".join(str(jar) for jar in jars.own.libraries())
    assert found["spark.driver.host"] == "127.0.0.1"


def test_a_driver_does_not_collect_its_heap_for_each_threshold_of_classes(launch) -> None:
    own = launch.model_copy(update={"conf": {"spark.driver.extraJavaOptions": "-XX:MetaspaceSize=64m"}})
    options = session.conf(own)["spark.driver.extraJavaOptions"].split()
    assert ROOM_FOR_CLASSES in options
    assert options[-1] == "-XX:MetaspaceSize=64m", "what a project says wins"


def test_a_master_that_stands_by_is_enough_and_none_is_reported_by_name() -> None:
    away = ports.any_free()
    with closing(socket.create_server(("127.0.0.1", 0))) as one:
        port = one.getsockname()[1]
        assert master.reach(SparkMaster(f"spark://127.0.0.1:{away},127.0.0.1:{port}")) == "127.0.0.1"
    with pytest.raises(DependencyDown) as told:
        master.reach(SparkMaster(f"spark://127.0.0.1:{away},nobody.invalid:7077"))
    assert f"127.0.0.1:{away}: Connection refused; nobody.invalid:7077: " in told.value.why
    assert "lakeward doctor" in told.value.next


def test_the_secret_is_handed_over_in_a_private_file_that_does_not_stay(launch, monkeypatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    secret(launch, "=s3\\cret\n")
    cluster.hand_over_secret(launch)
    file = Path(os.environ["SPARK_CONF_DIR"]) / "spark-defaults.conf"
    assert file.read_text() == "spark.authenticate.secret==s3\\\\cret\n", "as Java reads properties"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "=s3" not in str(session.conf(launch, "127.0.0.1"))
    cluster.forget_secret(launch)
    assert not file.exists()


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        (None, 0, "No such file"),
        ("s3cret", 0o644, "chmod 600"),
        ("", 0o600, "is empty"),
        ("s3cret spark.ui.port 1", 0o600, "contains white space"),
        ("s3cret\nspark.master local", 0o600, "contains white space"),
    ],
)
def test_a_secret_that_is_not_in_order_is_reported_and_not_repeated(launch, text, mode, words) -> None:
    if text is not None:
        secret(launch, text, mode)
    with pytest.raises(SpecError) as told:
        cluster.hand_over_secret(launch)
    assert words in str(told.value)
    assert "s3cret" not in str(told.value)
    assert not list(launch.folder.rglob("spark-defaults.conf"))


def test_no_secret_is_asked_for_where_the_cluster_wants_none(launch) -> None:
    cluster.hand_over_secret(launch.model_copy(update={"conf": {"spark.master": MASTER}}))
