"""AWS Glue's API through PyIceberg, as moto has it: what is called, and what is said where AWS refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import glue
import pyarrow as pa
import pytest
from glue import Glue
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchNamespaceError

from lakeward.connectors.iceberg import catalog as addresses
from lakeward.connectors.iceberg.catalogs.examine import answers_of
from lakeward.platform.errors import DependencyDown
from lakeward.platform.failures import FailureClass, classify
from lakeward.platform.runtime import CATALOG
from lakeward.tables.context import namespaces

ROWS = pa.table({"id": pa.array([1], pa.int64())})
EXPIRED = ("ExpiredTokenException", "The security token included in the request is expired")
UNKNOWN = ("UnrecognizedClientException", "The security token included in the request is invalid.")
DENIED = ("AccessDeniedException", "User: arn:aws:iam::1:user/w is not authorized to perform: glue:X")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Glue]:
    with glue.running(tmp_path_factory.mktemp("glue")) as made:
        opened(made).create_namespace("db")
        yield made


@pytest.fixture
def rig(running: Glue) -> Iterator[Glue]:
    yield running
    running.answer = lambda operation, given: None
    running.lose(0)
    running.connect()


@pytest.fixture
def table(rig: Glue, request: pytest.FixtureRequest) -> Any:
    name = "".join(letter for letter in request.node.name.lower() if letter.isalnum())
    made = opened(rig).create_table(f"db.{name}", ROWS.schema)
    rig.requests.clear()
    return made


def opened(rig: Glue) -> Any:
    return load_catalog(CATALOG, **addresses.pyiceberg_properties(rig.lake))


def refuse(rig: Glue, code: str, message: str, *, only: str = "") -> None:
    """Refuse everything, or what has this operation or this database."""

    def answer(operation: str, given: dict[str, Any]) -> tuple[int, str, str] | None:
        return (400, code, message) if only in ("", operation, given.get("DatabaseName")) else None

    rig.answer = answer


def ids(table: Any) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def test_tables_are_made_listed_renamed_and_dropped(rig: Glue) -> None:
    catalog = opened(rig)
    catalog.create_namespace("life")
    made = catalog.create_table("life.a", ROWS.schema)
    made.append(ROWS)
    assert made.location() == "s3://lake/warehouse/life.db/a"
    catalog.rename_table("life.a", "life.b")
    assert catalog.list_tables("life") == [("life", "b")]
    assert ids(opened(rig).load_table("life.b")) == [1]
    catalog.drop_table("life.b")
    catalog.drop_namespace("life")
    assert ("life",) not in catalog.list_namespaces()
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables("life")


def test_of_two_commits_on_one_base_one_is_taken(rig: Glue, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other writer commits between the comparison and the change: only the version of the table tells."""
    stale = opened(rig).load_table(table.name())
    written = type(stale.catalog)._write_metadata

    def late(*given: Any, **more: Any) -> None:
        written(*given, **more)
        monkeypatch.setattr(type(stale.catalog), "_write_metadata", staticmethod(written))
        table.append(ROWS)

    monkeypatch.setattr(type(stale.catalog), "_write_metadata", staticmethod(late))
    with pytest.raises(CommitFailedException, match="concurrent update"), stale.transaction() as change:
        change.set_properties({"a": "b"})
    assert ids(table) == [1], "the rows of the other writer are still there"
    versions = [(given["VersionId"], given["SkipArchive"]) for name, given in rig.requests if name == "UpdateTable"]
    assert versions == [("1", True), ("1", True)], "both named the version that they had read"


@pytest.mark.parametrize("answers", [1, 3])
def test_a_lost_answer_is_unknown_and_the_commit_is_there(rig: Glue, table: Any, answers: int) -> None:
    """The answer to the commit alone, or those to its repetitions, too."""
    rig.lose(answers)
    with pytest.raises(CommitStateUnknownException):
        table.append(ROWS)
    assert rig.lost == answers
    assert ids(opened(rig).load_table(table.name())) == [1]


@pytest.mark.parametrize(
    ("refused", "code", "words"),
    [(EXPIRED, "LW-3507", "has expired"), (UNKNOWN, "LW-3508", "does not accept"), (DENIED, "LW-3509", "a privilege")],
)
def test_what_aws_refuses_is_a_dependency_with_words(
    rig: Glue, table: Any, refused: tuple[str, str], code: str, words: str
) -> None:
    refuse(rig, *refused)
    with pytest.raises(DependencyDown, match=words) as down:
        opened(rig).load_table(table.name())
    assert down.value.code == code
    assert refused[1] in down.value.why
    assert classify(error=down.value) is FailureClass.DEPENDENCY
    assert glue.SECRET not in f"{down.value} {down.value.why} {down.value.next}"


def test_the_region_of_the_signature_is_said(rig: Glue) -> None:
    refuse(rig, "InvalidSignatureException", "Credential should be scoped to a valid region.")
    with pytest.raises(DependencyDown, match="does not accept the keys") as down:
        opened(rig).list_namespaces()
    assert "signed for region eu-central-1" in down.value.why
    assert "region:" in down.value.next


def test_a_machine_without_keys_is_reported(rig: Glue, monkeypatch: pytest.MonkeyPatch) -> None:
    glue.no_keys(monkeypatch)
    anybody = rig.lake.model_copy(update={"store": None})
    with pytest.raises(DependencyDown, match="no AWS keys") as down:
        load_catalog(CATALOG, **addresses.pyiceberg_properties(anybody)).list_namespaces()
    assert down.value.code == "LW-3510"


def test_a_rotated_key_needs_no_new_client(rig: Glue, table: Any) -> None:
    """And the keys are in no property, which PyIceberg passes on and shows."""
    catalog = opened(rig)
    signed: list[str] = []
    catalog.glue.meta.events.register("before-send.glue", lambda request, **_: signed.append(str(request.headers)))
    catalog.list_tables("db")
    rig.connect(key="ROTATED", secret="an0ther", aws_session_token="t0ken")
    catalog.list_tables("db")
    assert [text.count(f"Credential={key}/") for text, key in zip(signed, (glue.KEY, "ROTATED"), strict=True)] == [1, 1]
    assert "t0ken" in signed[1]
    assert "an0ther" not in str(signed)
    assert not [key for key in catalog.properties if key.startswith(("glue.", "client.")) and "key" in key]


def test_a_catalog_that_does_not_answer_is_named(rig: Glue) -> None:
    properties = {**rig.lake.properties, "glue.endpoint": "http://127.0.0.1:1"}
    away = rig.lake.model_copy(update={"properties": properties})
    with pytest.raises(DependencyDown, match="Glue does not answer") as down:
        load_catalog(CATALOG, **addresses.pyiceberg_properties(away)).list_namespaces()
    assert down.value.code == "LW-3511"
    [answer] = answers_of(away)
    assert (answer.ok, answer.severe) == (False, True)
    assert "http://127.0.0.1:1" in answer.found


def test_a_database_that_may_not_be_listed_is_skipped_and_named(rig: Glue, table: Any) -> None:
    opened(rig).create_namespace_if_not_exists("closed")
    refuse(rig, *DENIED, only="closed")
    refused: dict[tuple[str, ...], str] = {}
    assert ("closed",) in namespaces(opened(rig), refused)
    answers = {answer.name: answer for answer in answers_of(rig.lake)}
    assert "not allowed to list closed" in answers["catalog namespaces"].found
    assert not answers["catalog namespaces"].ok


def test_glue_is_examined_without_a_change(rig: Glue, table: Any) -> None:
    before = opened(rig).list_tables("db")
    answers = {answer.name: answer for answer in answers_of(rig.lake)}
    assert list(answers) == [f"catalog{name}" for name in ("", " namespaces", " commit", " create", " exactness")]
    assert all(answer.ok for answer in answers.values())
    assert "as connection lakeward_aws, region eu-central-1" in answers["catalog"].found
    assert answers["catalog commit"].found == answers["catalog create"].found == "allowed in db"
    assert "not against AWS" in answers["catalog exactness"].found
    assert opened(rig).list_tables("db") == before


def test_a_trial_without_an_answer_is_said(rig: Glue, table: Any) -> None:
    rig.lose(3)
    answers = {answer.name: answer for answer in answers_of(rig.lake)}
    assert [name for name, answer in answers.items() if not answer.ok] == ["catalog commit"]
    assert "no answer" in answers["catalog commit"].found


@pytest.mark.parametrize(("operation", "line"), [("UpdateTable", "commit"), ("CreateTable", "create")])
def test_a_privilege_that_is_missing_is_found(rig: Glue, table: Any, operation: str, line: str) -> None:
    refuse(rig, *DENIED, only=operation)
    answers = {answer.name: answer for answer in answers_of(rig.lake)}
    assert [name for name, answer in answers.items() if not answer.ok] == [f"catalog {line}"]
    assert f"glue:{operation}" in answers[f"catalog {line}"].next


def test_the_connection_is_no_value_of_spark(rig: Glue) -> None:
    conf = addresses.spark_conf(rig.lake)
    assert conf["spark.sql.catalog.lake.type"] == "glue"
    assert conf["spark.sql.catalog.lake.client.region"] == glue.REGION
    assert glue.SECRET not in str(conf)
    assert glue.KEY not in str(conf)
    file = Path(addresses.environment(rig.lake)["AWS_SHARED_CREDENTIALS_FILE"])
    assert file.stat().st_mode & 0o077 == 0
