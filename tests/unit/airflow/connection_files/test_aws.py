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
    given = Given(None, None, "K", "a\n[default]\nregion = x", None, {"role_arn": "arn:x"})
    AWS.keep(runtime, Home(tmp_path), ["mine"], {"mine": given}.get)
    with pytest.raises(SpecError, match="AWS connection mine is not valid") as told:
        account.find("mine", tmp_path)
    assert "Airflow connection mine: role_arn is unknown" in told.value.why
