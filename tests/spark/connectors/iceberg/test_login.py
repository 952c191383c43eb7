"""The login of a REST catalog in the JVM: from a private file, which is read again when it changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import rest_login
from rest_login import Login

from lakeward.connectors.iceberg import catalog, jvm
from lakeward.platform import private
from lakeward.platform.errors import DependencyDown
from lakeward.platform.failures import FailureClass, classify
from lakeward.platform.runtime import CatalogLogin, Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Deployment:
    """A project with a REST catalog, and the file of its login."""

    def __init__(self, spark: SparkSession, folder: Path, port: int) -> None:
        self.spark, self.folder = spark, folder
        self.lake = Lake(
            warehouse=str(folder),
            properties={"type": "rest", "uri": f"http://127.0.0.1:{port}"},
            login=CatalogLogin(connection="c", connections=folder),
        )

    @property
    def file(self) -> Path:
        return self.folder / "iceberg" / "c.json"

    def write(self, **content: str) -> None:
        private.write(private.folder(self.file.parent) / self.file.name, json.dumps(content))

    def session(self) -> SparkSession:
        """A session with a catalog of its own, as each stream has one."""
        made = self.spark.newSession()
        for key in ("catalog-impl", "uri", "warehouse"):  # those of the session's own catalog
            made.conf.unset(f"spark.sql.catalog.lake.{key}")
        for key, value in catalog.spark_conf(self.lake).items():
            if key.startswith("spark.sql.catalog.lake."):
                made.conf.set(key, value)
        made.conf.set("spark.sql.catalog.lake.catalog-impl", "org.apache.iceberg.rest.RESTCatalog")
        made.conf.unset("spark.sql.catalog.lake.type")
        return made


@pytest.fixture
def deployment(spark: SparkSession, tmp_path: Path) -> Iterator[Deployment]:
    with rest_login.running() as server:
        yield Deployment(spark, tmp_path, server.server_port)


def listed(session: SparkSession) -> list[str]:
    """The namespaces."""
    return [row.namespace for row in session.sql("SHOW NAMESPACES IN lake").collect()]


def test_it_logs_in_once_for_many_requests(deployment: Deployment) -> None:
    Login.secret = "s3cret"
    deployment.write(credential="i:s3cret", scope="PRINCIPAL_ROLE:ALL")
    session = deployment.session()
    assert listed(session) == listed(session) == ["n"]
    # Iceberg makes a session for the configuration, and one for everything else.
    assert Login.requests == ["login", "config", "login", "namespaces", "namespaces"]
    assert "scope=PRINCIPAL_ROLE%3AALL" in Login.form
    conf = str(session.sparkContext.getConf().getAll()) + str(session.sql("SET -v").collect())
    assert "s3cret" not in conf


def test_requests_at_the_same_moment_log_in_once(deployment: Deployment) -> None:
    Login.life_s = 3600
    deployment.write(credential="i:s")
    session = deployment.session()
    listed(session)
    Login.requests = []
    deployment.write(credential="i:s", scope="other")
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: listed(session), range(8))) == [["n"]] * 8
    assert Login.requests.count("login") == 1


def test_a_token_is_renewed_before_it_expires(deployment: Deployment) -> None:
    Login.life_s = 0
    deployment.write(credential="i:s")
    session = deployment.session()
    listed(session)
    Login.requests = []
    assert listed(session) == listed(session) == ["n"]
    assert Login.requests == ["login", "namespaces"] * 2


def test_a_login_that_changes_in_the_file_is_taken_up_by_a_running_session(deployment: Deployment) -> None:
    deployment.write(credential="i:s")
    session = deployment.session()
    assert listed(session) == ["n"]
    Login.secret, Login.accepted = "rotated", 99
    with pytest.raises(Exception, match=r"NotAuthorized|not authorized|who are you") as refused:
        listed(session)
    assert classify(text=str(refused.value)) is FailureClass.DEPENDENCY
    deployment.write(credential="i:rotated")
    assert listed(session) == ["n"]
    deployment.write(token=f"t{Login.accepted}")
    assert listed(session) == ["n"]
    deployment.write(**{"rest.auth.basic.username": "u", "rest.auth.basic.password": "p"})
    Login.accepted = 99
    assert listed(session) == ["n"]


def test_a_login_that_cannot_be_renewed_is_used_while_it_is_valid(deployment: Deployment) -> None:
    Login.life_s = 3600
    java = deployment.spark._jvm
    longest = java.java.lang.Class.forName("io.lakeward.LoginFile$Session").getDeclaredField("longestS")
    longest.setAccessible(True)
    before = longest.getLong(None)
    longest.setLong(None, 0)
    try:
        deployment.write(credential="i:s")
        session = deployment.session()
        assert listed(session) == ["n"]
        Login.secret, Login.requests = "changed", []
        assert listed(session) == listed(session) == ["n"]
        assert Login.requests == ["login", "namespaces", "namespaces"], "after a failure there is a pause"
    finally:
        longest.setLong(None, before)


@pytest.mark.parametrize("error", ["invalid_client", "unauthorized_client", "invalid_grant"])
def test_a_wrong_secret_is_a_dependency_whatever_the_server_calls_it(deployment: Deployment, error: str) -> None:
    Login.error = error
    deployment.write(credential="i:wrong")
    session = deployment.session()
    active = session._get_j_spark_session_class(session._jvm)
    active.setActiveSession(session._jsparkSession)  # as a driver does for each stream
    try:
        with pytest.raises(DependencyDown, match="refuses the login"):
            jvm.load(session, "n.t")
    finally:
        active.setActiveSession(deployment.spark._jsparkSession)


def test_a_server_cannot_name_another_file(deployment: Deployment) -> None:
    deployment.write(credential="i:s")
    Login.overrides = {"rest.auth.lakeward.file": "/no/such/file"}
    assert listed(deployment.session()) == ["n"]


@pytest.mark.parametrize("status", [401, 419])
def test_after_a_token_that_the_server_forgot_the_next_attempt_logs_in(deployment: Deployment, status: int) -> None:
    Login.life_s = 3600
    deployment.write(credential="i:s")
    session = deployment.session()
    listed(session)
    Login.accepted, Login.status, Login.requests = 99, status, []
    with pytest.raises(DependencyDown, match="refuses the login"):
        jvm.load(session, "n.t")
    assert listed(session) == ["n"]
    assert Login.requests == ["t", "login", "namespaces"]


@pytest.mark.parametrize("text", [None, "s3cret", '{"scope": "s3cret"}'])
def test_a_file_that_cannot_be_used_is_named_and_not_repeated(deployment: Deployment, text: str | None) -> None:
    private.folder(deployment.file.parent)
    if text is not None:
        private.write(deployment.file, text)
    with pytest.raises(Exception, match=r"The login in .*c\.json cannot be used") as refused:
        listed(deployment.session())
    assert classify(text=str(refused.value)) is FailureClass.DEPENDENCY
    assert "s3cret" not in str(refused.value)
