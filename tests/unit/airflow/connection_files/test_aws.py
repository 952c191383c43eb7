"""Airflow's AWS connections as private files of the home."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from airflow_given import Given

from lakeward.airflow.connection_files import ADAPTERS
from lakeward.connectors.aws import account
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Home, Lake, ObjectStore, Runtime

AWS = ADAPTERS["aws"]


def test_a_connection_of_airflow_is_a_profile_file_that_stays_while_something_names_it(tmp_path: Path) -> None:
    url = tmp_path / "url"
    url.write_text("postgresql://nobody@127.0.0.1:9/none")
    lake = Lake(warehouse="s3://l/w", store=ObjectStore(connection="lakeward_s3", connections=tmp_path))
    runtime = Runtime(
        registry_url_file=url, lake=lake, checkpoints="/c", drivers=tmp_path, jars=tmp_path, connections=tmp_path
    )
    assert AWS.named(runtime) == {"lakeward_s3"}, "also while the registry is away"
    extra = {"region_name": "eu-central-1", "endpoint_url": "http://h:1"}
    given = Given(None, None, "K", "s3cret", None, extra)
    AWS.keep(runtime, Home(tmp_path), ["lakeward_s3", "gone"], {"lakeward_s3": given}.get)
    found = account.find("lakeward_s3", tmp_path)
    assert (found.region, found.endpoint) == ("eu-central-1", "http://h:1")
    assert found.keys() == {account.KEY: "K", account.SECRET: "s3cret"}
    [file] = (tmp_path / "airflow" / "aws").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    os.utime(file, (0, 0))
    AWS.keep(runtime, Home(tmp_path), ["lakeward_s3"], {}.get)
    assert file.exists(), "a secrets backend that is away takes nothing"
    AWS.keep(runtime, Home(tmp_path), [], {}.get)
    assert not file.exists()


def test_what_is_not_known_of_it_is_refused_by_its_name_when_it_is_used(tmp_path: Path) -> None:
    runtime = Runtime(
        registry_url_file=tmp_path, lake=Lake(warehouse="/w"), checkpoints="/c", drivers=tmp_path, jars=tmp_path,
        connections=tmp_path,
    )  # fmt: skip
    given = Given(None, None, "K", "a\n[default]\nregion = x", None, {"role": "arn:x"})
    AWS.keep(runtime, Home(tmp_path), ["mine"], {"mine": given}.get)
    with pytest.raises(SpecError, match="AWS connection mine is not valid") as told:
        account.find("mine", tmp_path)
    assert "Airflow connection mine: role is unknown" in told.value.why


@pytest.mark.parametrize("unknown", [{"assume_role_method": "assume_role_with_saml"},
                                     {"assume_role_kwargs": {"DurationSeconds": 900}}])  # fmt: skip
def test_a_role_is_written_with_the_names_of_the_sdks(tmp_path: Path, unknown: dict[str, object]) -> None:
    runtime = Runtime(
        registry_url_file=tmp_path, lake=Lake(warehouse="/w"), checkpoints="/c", drivers=tmp_path, jars=tmp_path,
        connections=tmp_path,
    )  # fmt: skip
    role = {"role_arn": "arn:x", "region_name": "r"}
    keys = {"assume_role_method": "assume_role", "assume_role_kwargs": {"ExternalId": "e", "RoleSessionName": "s"}}
    web = {
        "assume_role_method": "assume_role_with_web_identity", "assume_role_with_web_identity_token_file": "/run/token",
    }  # fmt: skip
    given = {
        "keys": Given(None, None, "K", "s3cret", None, role | keys),
        "web": Given(None, None, None, None, None, role | web),
        "odd": Given(None, None, "K", "s3cret", None, role | unknown),
    }
    AWS.keep(runtime, Home(tmp_path), list(given), given.get)
    assert account.find("keys", tmp_path).role == "arn:x"
    assert (tmp_path / "airflow" / "aws" / "keys.ini").read_text() == (
        "[default]\nrole_arn = arn:x\nregion = r\nexternal_id = e\nrole_session_name = s\nsource_profile = source\n"
        "[source]\naws_access_key_id = K\naws_secret_access_key = s3cret\n"
    )
    assert account.find("web", tmp_path).web_token == Path("/run/token")
    with pytest.raises(SpecError) as told:
        account.find("odd", tmp_path)
    assert "is unknown; valid: aws_access_key_id" in told.value.why
