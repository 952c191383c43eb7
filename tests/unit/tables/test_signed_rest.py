"""A REST catalog that takes signed requests alone, through PyIceberg: a real one behind a check of each signature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import glue
import object_store
import pyarrow as pa
import pytest
import signed_rest
from object_store import SECRET
from pyiceberg.catalog import load_catalog
from signed_rest import Signed

from lakeward.connectors.iceberg import catalog as addresses
from lakeward.connectors.iceberg.catalogs.examine import answers_of
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import CATALOG, Lake

ROWS = pa.table({"id": pa.array([1], pa.int64())})
OLD = "0ld-t0ken"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signed]:
    folder = tmp_path_factory.mktemp("signed")
    with object_store.running(folder / "store", catalog=True) as weed, signed_rest.running(weed) as made:
        made.expired = OLD
        opened(made).create_namespace("db")
        yield made


@pytest.fixture(autouse=True)
def asked(server: Signed) -> None:
    server.weed.connect()
    server.taken.clear()
    server.refused.clear()


def lake_of(server: Signed, **more: str) -> Lake:
    return Lake(warehouse="/nowhere", properties={**server.properties, **more}, store=server.weed.store)


def opened(server: Signed, **more: str) -> Any:
    return load_catalog(CATALOG, **addresses.pyiceberg_properties(lake_of(server, **more)))


def test_every_request_is_signed_and_the_catalog_works(server: Signed) -> None:
    catalog = opened(server)
    table = catalog.create_table("db.a-b", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    assert ("db", "a-b") in catalog.list_tables("db")
    assert opened(server).load_table("db.a-b").scan().to_arrow().num_rows == 2
    catalog.drop_table("db.a-b")
    assert server.refused == []
    assert {"POST /v1/lake/namespaces/db/tables/a-b", "DELETE /v1/lake/namespaces/db/tables/a-b"} < set(server.taken)
    assert [key for key, value in catalog.properties.items() if value == SECRET] == ["s3.secret-access-key"]


def test_a_rotated_key_is_taken_up(server: Signed) -> None:
    catalog = opened(server)
    server.weed.connect(aws_access_key_id="OTHER")
    with pytest.raises(DependencyDown, match="does not accept the keys"):
        catalog.list_namespaces()
    server.weed.connect()
    assert ("db",) in catalog.list_namespaces()


@pytest.mark.parametrize(
    ("written", "changed", "code", "words"),
    [
        ({"aws_secret_access_key": "wr0ng"}, {}, "LW-3508", "signature we calculated"),
        ({"aws_access_key_id": "OTHER"}, {}, "LW-3508", "is invalid"),
        ({"aws_session_token": OLD}, {}, "LW-3507", "is expired"),
        ({}, {"rest.signing-region": "us-east-1"}, "LW-3508", "signed for region us-east-1"),
    ],
)
def test_what_is_wrong_with_a_signature_is_said(
    server: Signed, written: dict[str, str], changed: dict[str, str], code: str, words: str
) -> None:
    server.weed.connect(**written)
    with pytest.raises(DependencyDown) as down:
        opened(server, **changed)
    assert down.value.code == code
    assert words in down.value.why
    assert "wr0ng" not in f"{down.value} {down.value.why}"
    [answer] = answers_of(lake_of(server, **changed))
    assert (answer.ok, answer.severe) == (False, True)


def test_the_catalog_is_examined(server: Signed) -> None:
    opened(server).create_table_if_not_exists("db.examined", ROWS.schema)
    answers = {answer.name: answer for answer in answers_of(lake_of(server))}
    assert answers["catalog"].found.endswith("answers as connection lakeward_s3, signed for glue in eu-central-1")
    assert "catalog credentials" not in answers, "the connection reads the files"
    assert {name for name, answer in answers.items() if not answer.ok} == set()
    assert server.refused == []


def test_a_machine_without_keys_is_reported(server: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    glue.no_keys(monkeypatch)
    anybody = lake_of(server).model_copy(update={"store": None})
    with pytest.raises(DependencyDown, match="no AWS keys") as down:
        load_catalog(CATALOG, **addresses.pyiceberg_properties(anybody))
    assert down.value.code == "LW-3510"
