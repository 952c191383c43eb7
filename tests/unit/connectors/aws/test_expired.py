"""Credentials that have expired are a dependency that is down; credentials that are wrong need a correction."""

from __future__ import annotations

import pytest

from lakeward.connectors.aws import store
from lakeward.connectors.kinesis.source import KinesisStreamSource
from lakeward.connectors.kinesis.stream import Place
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import Lake

LAKE = Lake(warehouse="s3://lake")


@pytest.mark.parametrize(
    "message",
    [
        "When listing objects under key 'x': AWS Error EXPIRED_TOKEN during ListObjectsV2 operation: it has expired",
        "AWS Error UNKNOWN (HTTP status 400) during HeadObject operation: Unable to parse ExceptionName: ExpiredToken",
    ],
)
def test_an_expired_token_of_a_store_is_a_dependency(message: str) -> None:
    error = store.error_of(LAKE, "s3://lake/x", message)
    assert isinstance(error, DependencyDown)
    assert error.code == "LW-3432"


def test_a_wrong_key_of_a_store_needs_a_correction() -> None:
    message = "AWS Error INVALID_ACCESS_KEY_ID during ListObjectsV2 operation"
    assert isinstance(store.error_of(LAKE, "s3://lake/x", message), SpecError)


@pytest.mark.parametrize(("code", "kind"), [("ExpiredTokenException", DependencyDown), ("AccessDenied", SpecError)])
def test_kinesis(code: str, kind: type[Exception]) -> None:
    source = object.__new__(KinesisStreamSource)
    source.place = Place("events", "eu-west-1", "", "")
    assert type(source._error(code)) is kind
