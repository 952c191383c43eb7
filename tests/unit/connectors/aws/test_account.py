"""AWS connections in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.connectors.aws import account, store
from lakeward.connectors.iceberg import catalog
from lakeward.platform import private
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Lake, ObjectStore

KEYS = {account.KEY: "K", account.SECRET: "s3cret"}
ROLE = "[default]\nrole_arn = a\nregion = r\n"
SOURCE = "aws_access_key_id = K\naws_secret_access_key = s3cret\n"


def write(folder: Path, text: str, name: str = "own") -> Path:
    return private.write(private.folder(folder / "aws") / f"{name}.ini", text)


def test_a_profile_file_is_a_connection_and_airflows_wins(tmp_path: Path) -> None:
    file = write(tmp_path, account.render({**KEYS, "endpoint_url": "http://h:1"}))
    found = account.find("own", tmp_path)
    assert (found.endpoint, found.region, found.where) == ("http://h:1", "us-east-1", str(file))
    assert found.environment()["AWS_SHARED_CREDENTIALS_FILE"] == str(file)
    assert "s3cret" not in repr(found)
    assert found.keys() == KEYS
    theirs = private.folder(tmp_path / "airflow" / "aws") / "own.ini"
    private.write(theirs, account.render({**KEYS, "region": "eu-central-1"}))
    found = account.find("own", tmp_path)
    assert (found.endpoint, found.region, found.where) == (None, "eu-central-1", "Airflow connection own")
    assert account.names(tmp_path) == ["own"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must have the section [default]"),
        ("[default]\nregion = r\n[other]\nregion = r\n", "it has default, other"),
        ("[default]\nrole = a\n", "role is unknown"),
        (f"{ROLE}source_profile = s\n[s]\n{SOURCE}[t]\n", "and [s], which source_profile names, and no other"),
        (f"{ROLE}source_profile = s\n", "and [s], which source_profile names, and no other; it has default"),
        (f"{ROLE}", "role_arn needs either source_profile"),
        (f"{ROLE}web_identity_token_file = /t\nsource_profile = s\n[s]\n{SOURCE}", "role_arn needs either"),
        (f"{ROLE}web_identity_token_file = t\n", "web_identity_token_file must be an absolute path"),
        (f"{ROLE}web_identity_token_file = /t\nexternal_id = e\n", "external_id is for roles that keys assume"),
        (f"{ROLE}{SOURCE}", "must be in a section of their own, which source_profile names"),
        (f"{ROLE}source_profile = default\n", "source_profile must be another section than [default]"),
        (f"{ROLE}source_profile = s\n[s]\n{SOURCE}region = r\n", "region is unknown in [s]"),
        (f"{ROLE}source_profile = s\n[s]\naws_access_key_id = s3cret\n", "must be given together"),
        (f"{ROLE}source_profile = s\n[s]\n", "[s] has no aws_access_key_id"),
        (f"[default]\nrole_arn = a\nsource_profile = s\n[s]\n{SOURCE}", "role_arn needs region"),
        ("[default]\nexternal_id = e\nrole_session_name = s\n", "external_id, role_session_name needs role_arn"),
        ("[default]\naws_access_key_id = s3cret\n", "must be given together"),
        ("[default]\nendpoint_url = h:1\n", "endpoint_url must be http(s)://HOST:PORT"),
        ("[default]\nendpoint_url = http://u:s3cret@h\n", "endpoint_url must be http(s)://HOST:PORT"),
        ("s3cret", "it is not a profile file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_not_repeated(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(SpecError, match="AWS connection own is not valid") as told:
        account.find("own", tmp_path)
    assert words in told.value.why and str(file) in told.value.why
    assert "s3cret" not in str(told.value)


def test_a_file_others_may_read_and_an_unknown_id_are_refused(tmp_path: Path) -> None:
    write(tmp_path, account.render(KEYS)).chmod(0o640)
    with pytest.raises(SpecError, match="readable by other users"):
        account.find("own", tmp_path)
    with pytest.raises(SpecError, match="AWS connection 'mine' does not exist") as told:
        account.find("mine", tmp_path)
    assert "known connections: own" in told.value.why


def test_spark_is_given_the_place_and_never_the_key(tmp_path: Path) -> None:
    write(tmp_path, account.render({**KEYS, "endpoint_url": "https://h:1"}))
    lake = Lake(warehouse="s3://lake/w", store=ObjectStore(connection="own", connections=tmp_path))
    conf = catalog.spark_conf(lake)
    assert conf["spark.sql.catalog.lake.s3.endpoint"] == conf["spark.hadoop.fs.s3a.endpoint"] == "https://h:1"
    assert conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "true"
    assert "s3cret" not in str(conf)
    assert catalog.pyiceberg_properties(lake)["s3.secret-access-key"] == "s3cret"
    machine = Lake(warehouse="s3://lake/w", store=ObjectStore())
    assert "spark.hadoop.fs.s3a.endpoint" not in catalog.spark_conf(machine)
    assert account.find(None, tmp_path).environment() == {}
    assert store.spark_conf(Lake(warehouse="/w"), "p") == catalog.environment(Lake(warehouse="/w")) == {}
