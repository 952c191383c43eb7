"""Roles that an AWS connection assumes, at moto's STS and S3 with credentials that end after seconds."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import assumed_role
import pytest
from assumed_role import BUCKET, SECRET, Store

from lakeward.connectors.aws import account, session, store
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.iceberg import catalog
from lakeward.connectors.iceberg.file_io import CheckedFileIO
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import Lake, ObjectStore

FILE = f"s3://{BUCKET}/a/b"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with assumed_role.running(tmp_path_factory.mktemp("role"), Store) as made:
        yield made


@pytest.fixture(params=["by_keys", "by_web_identity"])
def lake(request: pytest.FixtureRequest, server: Store) -> Lake:
    server.life_s, server.refuses = 3600.0, None
    server.given.clear()
    server.refused.clear()
    server.used.clear()
    server.until.clear()
    made: ObjectStore = getattr(server, request.param)()  # written again: credentials of another test are not kept
    return Lake(warehouse=f"s3://{BUCKET}/w", store=made)


def outlive(server: Store) -> None:
    """Let the time pass until every key has expired."""
    time.sleep(max(0.0, max(server.until.values()) - time.time() + 0.1))


def test_a_long_lived_client_outlives_the_credentials(server: Store, lake: Lake) -> None:
    server.life_s = 2.0
    files = catalog.pyiceberg_properties(lake)
    assert "s3.access-key-id" not in files
    io = CheckedFileIO(files)
    write(io, b"first")
    outlive(server)
    copy = pickle.loads(pickle.dumps(io))
    assert read(copy) == read(io) == b"first"
    outlive(server)
    write(io, b"second")
    assert FileAccess(lake).content(FILE) == b"second"
    assert server.refused == [] and len(server.used) >= 3


def test_credentials_that_stay_valid_are_kept(server: Store, lake: Lake) -> None:
    io = CheckedFileIO(catalog.pyiceberg_properties(lake))
    for content in (b"1", b"2", b"3"):
        write(io, content)
        store.check(lake, FILE)
    assert len(server.given) <= 1 and len(server.used) == 1


def test_signed_requests_of_a_session_are_renewed(server: Store, lake: Lake) -> None:
    server.life_s = 2.0
    keys = session.session_of(account_of(lake)).get_credentials()
    first = keys.get_frozen_credentials()
    outlive(server)
    assert keys.get_frozen_credentials().access_key not in {first.access_key, account.KEY}
    assert keys.get_frozen_credentials().token


def test_the_keys_that_a_server_vends_for_a_table_are_used(server: Store, lake: Lake) -> None:
    vended = {"s3.access-key-id": "THEIRS", "s3.secret-access-key": "x", "s3.session-token": "t"}
    with pytest.raises(OSError, match="AWS Error"):
        read(CheckedFileIO(catalog.pyiceberg_properties(lake) | vended))
    assert server.refused and not server.used


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (("AccessDenied", 403), "LW-3512", "may not be assumed"),
        (("ExpiredTokenException", 400), "LW-3513", "has expired"),
        (("ServiceUnavailable", 503), "LW-3514", "STS does not answer"),
    ],
)
def test_a_refusal_of_sts_is_said_in_its_words(
    server: Store, lake: Lake, answer: tuple[str, int], code: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    server.life_s = 1.0  # what another test was given is not kept
    server.refuses = answer
    again(lake)
    with pytest.raises((SpecError, DependencyDown), match=words) as told:
        account_of(lake).keys()
    assert told.value.code == code and isinstance(told.value, DependencyDown) == (code != "LW-3512")
    assert SECRET not in str(told.value) and answer[0] in told.value.why + code.replace("LW-3513", answer[0])
    server.refuses = None
    assert account_of(lake).keys()[account.TOKEN], "it is taken up when it is corrected"


def test_a_token_that_is_not_there_is_named(server: Store) -> None:
    lake = Lake(warehouse=FILE, store=server.by_web_identity("gone"))
    server.token.unlink()
    with pytest.raises(DependencyDown, match="does not exist") as told:
        account_of(lake).keys()
    assert str(server.token) in str(told.value)


def test_each_file_system_of_hadoop_has_a_provider_of_its_own(server: Store, lake: Lake) -> None:
    """The default one is the only one of a JVM, closed with the first of them (tests/faults/test_driver_role.py)."""
    provider = catalog.spark_conf(lake)["spark.hadoop.fs.s3a.aws.credentials.provider"]
    assert provider.endswith("ProfileCredentialsProvider")


def test_spark_gets_the_path_alone(server: Store, lake: Lake) -> None:
    assert SECRET not in str(catalog.spark_conf(lake)) + str(catalog.environment(lake))
    assert assumed_role.TOKEN not in str(catalog.spark_conf(lake)) + str(catalog.environment(lake))


def account_of(lake: Lake) -> account.Account:
    found = store.account_of(lake)
    assert found is not None
    return found


def again(lake: Lake) -> None:
    """A connection that was written again, as by a person: its credentials are new."""
    file = account_of(lake).file
    assert isinstance(file, Path)
    file.write_text(f"{file.read_text()}# again\n")


def write(io: Any, content: bytes) -> None:
    with io.new_output(FILE).create(overwrite=True) as stream:
        stream.write(content)


def read(io: Any) -> bytes:
    with io.new_input(FILE).open() as stream:
        return bytes(stream.read())
