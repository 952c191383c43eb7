"""Airflow's PostgreSQL connections as private files of the home."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from airflow_given import Given

from lakeward.airflow.connection_files import ADAPTERS
from lakeward.connectors.postgres import connection as link
from lakeward.connectors.postgres import table
from lakeward.platform import private
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Database, Home, Lake, Runtime
from lakeward.registry.deploy import deploy
from lakeward.registry.engine import connect
from lakeward.spec.model.stream import StreamSpec

POSTGRES = ADAPTERS["postgres"]
STACKS = Database(host="h", database="d", user="u")


def keep(home: Home, ids: list[str], get: Any) -> Runtime:
    """Bring the files up to date; the runtime with what they say."""
    POSTGRES.keep(Runtime.load(home.runtime_file), home, ids, get)
    return Runtime.load(home.runtime_file)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    runtime = Runtime(
        registry_url_file=made.registry_url_file, lake=Lake(warehouse="/w"), checkpoints="/c", drivers=tmp_path,
        jars=tmp_path, postgres={"lakeward_postgres": STACKS},
    )  # fmt: skip
    made.runtime_file.write_text(runtime.model_dump_json())
    return made


def test_a_connection_of_airflow_logs_in_and_leaves_its_password_in_a_file_of_its_own(
    home: Home, postgres: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSFILE", raising=False)
    given = Given(postgres.host, postgres.port, postgres.user, postgres.password, database, {"sslmode": "prefer"})
    runtime = keep(home, ["served", "gone"], {"served": given}.get)
    assert set(runtime.postgres) == {"lakeward_postgres", "served"}
    assert postgres.password not in runtime.model_dump_json()
    for known in (runtime, Runtime.load(home.runtime_file)):  # a task and its driver; the command line
        with closing(link.connect(link.find("served", known.postgres), None, "test")) as held:
            assert table.query(held, "SELECT current_database()") == [(database,)]
    files = list((home.secrets / "postgres" / "airflow").iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    before = {file: file.stat().st_ino for file in files}
    keep(home, ["served"], {"served": given}.get)
    assert {file: file.stat().st_ino for file in files} == before, "nothing is written that is there"
    keep(home, ["served"], {}.get)
    keep(home, [], {}.get)
    assert Runtime.load(home.runtime_file).postgres == runtime.postgres, "a secrets backend that is away takes nothing"
    for file in files:
        os.utime(file, (0, 0))
    keep(home, ["served"], {}.get)
    assert Runtime.load(home.runtime_file).postgres == runtime.postgres, "a stream names it"
    keep(home, [], {}.get)
    assert Runtime.load(home.runtime_file).postgres == {"lakeward_postgres": STACKS}
    assert not list((home.secrets / "postgres" / "airflow").iterdir())


def test_a_file_of_the_home_is_a_connection_too_and_airflows_wins(home: Home) -> None:
    own = Database(host="mine", database="d", user="u")
    for name in ("a", "b"):
        private.write(private.folder(home.secrets / "postgres") / f"{name}.json", own.model_dump_json())
    keep(home, ["b"], {"b": Given("theirs", None, "u", None, "d")}.get)
    found = Runtime.load(home.runtime_file).postgres
    assert (found["a"].host, found["b"].host, found["b"].port) == ("mine", "theirs", 5432)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Given("h", 1, "u", "pa55-word", "d", {"iam": True}), "iam: Extra inputs are not permitted"),
        (Given("h", 1, None, "pa55-word", "d"), "user: Field required"),
    ],
)
def test_what_is_not_understood_stops_only_who_names_it(home: Home, given: Given, words: str) -> None:
    runtime = keep(home, ["odd"], {"odd": given}.get)
    assert link.find("lakeward_postgres", runtime.postgres) == STACKS
    with pytest.raises(SpecError) as caught:
        link.find("odd", runtime.postgres)
    assert words in caught.value.why
    assert "pa55-word" not in str(caught.value)


def test_the_connections_that_streams_name_are_asked_for(home: Home, postgres: Any) -> None:
    url = postgres.url(postgres.create_registry())
    private.write(private.folder(home.secrets) / home.registry_url_file.name, url)
    runtime = Runtime.load(home.runtime_file).model_copy(update={"pgpass": postgres.pgpass})
    assert POSTGRES.named(runtime) == set()
    document = {
        "id": "s", "owner": "x", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 5}},
        "sink": {"postgres": {"connection": "served", "table": "t"}},
        "reference": {"prices": {"jdbc": {"connection": "shop", "table": "prices"}}},
    }  # fmt: skip
    with connect(url, postgres.pgpass) as connection:
        deploy(connection, {"s": StreamSpec.model_validate(document)}, author="me")
    assert POSTGRES.named(runtime) == {"served", "shop"}
    home.registry_url_file.write_text(url.replace(str(postgres.port), "1"))
    assert POSTGRES.named(runtime) == {"lakeward_postgres"}
