"""A home whose registry, catalog and Airflow are those of an existing platform."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.cli import supervised as commands
from lakeward.platform.errors import DependencyDown, LakewardError, Refused, SpecError
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.registry import version
from lakeward.registry.engine import connect
from lakeward.stack import external, groups, supervised
from lakeward.stack.external import ExternalServices
from lakeward.stack.stack import Stack
from lakeward.stack.state import StackState
from lakeward.supervision.presence import Presence, State

CATALOG = "catalogs: {{prod: {{type: rest, uri: 'http://127.0.0.1:{port}', connection: polaris}}}}\n"


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Any) -> Stack:
    """A project with a REST catalog, and a home where nothing was written yet."""
    monkeypatch.setenv("PGPASSFILE", str(postgres.pgpass))
    (tmp_path / "p" / "conf").mkdir(parents=True)
    (tmp_path / "p" / "conf" / "lakeward.yaml").write_text(CATALOG.format(port=1))
    return Stack(Project(tmp_path / "p"), Home(tmp_path / "home"))


@pytest.fixture
def known(postgres: Any, database: str) -> ExternalServices:
    return external.registry(f"postgresql://{postgres.user}@{postgres.host}:{postgres.port}/{database}")


def test_tasks_find_registry_and_catalog_and_nothing_of_a_stack(stack: Stack, known: ExternalServices) -> None:
    shown = stack.use(known, None)
    assert shown["registry"] == known.registry
    runtime = Runtime.load(stack.home.runtime_file)
    assert (runtime.lake.name, runtime.lake.properties["uri"]) == ("prod", "http://127.0.0.1:1")
    assert (runtime.kafka, runtime.postgres) == ({}, {}), "no broker and no database is the stack's"
    url = runtime.registry_url_file.read_text().strip()
    with connect(url, runtime.pgpass) as connection:
        assert version.of(connection) == version.known()
    assert runtime.pgpass is not None
    assert len(runtime.pgpass.read_text().splitlines()) == 1, "the logins of other databases stay where they are"
    files = [file for file in stack.home.root.rglob("*") if file.is_file() and file.name != "stack.lock"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_tasks_have_no_connect_server_until_one_was_started_here(stack: Stack, known: ExternalServices) -> None:
    stack.use(known, None)
    assert Runtime.load(stack.home.runtime_file).connect is None, "at its port may be the server of another stack"
    StackState(ports={"connect": 15007}, parts=["checker", "connect"]).save(stack.home)
    stack.use(known, None)
    assert Runtime.load(stack.home.runtime_file).connect == "localhost:15007"


def test_a_command_that_finds_no_pass_points_to_the_airflow_of_the_platform(
    stack: Stack, known: ExternalServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.use(known, None)
    monkeypatch.setattr(commands, "state", lambda: SimpleNamespace(home=stack.home, project=stack.project))
    explained = commands.explain(Presence(State.AWAITED, why="the first is due"))
    assert (explained.state, explained.next) == (State.AWAITED, supervised.EXTERNAL_NEXT)


def test_it_is_repeated_after_a_change_of_the_settings_with_the_recorded_login(
    stack: Stack, known: ExternalServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.use(known, None)
    stack.project.settings_file.write_text(CATALOG.format(port=2))
    monkeypatch.setenv("PGPASSFILE", str(stack.home.root / "none"))
    recorded = stack.external
    assert recorded == known
    stack.use(recorded, None)
    assert Runtime.load(stack.home.runtime_file).lake.properties["uri"] == "http://127.0.0.1:2"


def test_a_login_that_does_not_work_leaves_the_home_as_it_was(
    stack: Stack, known: ExternalServices, tmp_path: Path
) -> None:
    stack.use(known, None)
    before = {file: file.read_bytes() for file in stack.home.root.rglob("*") if file.is_file()}
    wrong = tmp_path / "wrong"
    wrong.write_text("*:*:*:*:not-the-password\n")
    with pytest.raises(DependencyDown, match="password authentication failed") as error:
        stack.use(known, wrong)
    assert known.registry in error.value.next
    assert {file: file.read_bytes() for file in stack.home.root.rglob("*") if file.is_file()} == before


def test_a_role_that_may_not_create_tables_is_named_the_right_it_needs(
    stack: Stack, known: ExternalServices, postgres: Any, database: str, tmp_path: Path, reader: str
) -> None:
    theirs = external.registry(known.registry.replace(f"{postgres.user}@", f"{reader}@"))
    passwords = tmp_path / "passwords"
    passwords.write_text(f"*:*:*:{reader}:pw\n")
    with pytest.raises(SpecError, match="permission denied for schema public") as error:
        stack.use(theirs, passwords)
    assert error.value.code == "LW-7032"
    assert f"give the role {reader} the right CREATE on schema public" in error.value.next
    assert not stack.home.runtime_file.exists()


@pytest.fixture
def reader(postgres: Any, database: str) -> Iterator[str]:
    """A role that may connect and nothing else."""
    name = f"{database}_reader"
    with closing(postgres._server.connect(database, "postgres", password=postgres.admin_password)) as admin:
        admin.autocommit = True
        with admin.cursor() as cursor:
            cursor.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'pw'; GRANT CONNECT ON DATABASE {database} TO {name}")
            yield name
            cursor.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "CREATE TABLE alembic_version (version_num text); INSERT INTO alembic_version VALUES ('9fe6d19ee7ec')",
            "version 9fe6d19ee7ec, which is not Lakeward's",
        ),
        ("CREATE TABLE streams (id text)", 'relation "streams" already exists'),
    ],
)
def test_the_database_of_another_application_stays_as_it_is(
    stack: Stack, known: ExternalServices, postgres: Any, statement: str, words: str
) -> None:
    with connect(known.url, postgres.pgpass) as connection:
        connection.exec_driver_sql(statement)
    with pytest.raises(SpecError, match=words) as error:
        stack.use(known, None)
    assert "database" in error.value.next
    with connect(known.url, postgres.pgpass) as connection:
        found = connection.exec_driver_sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").scalar_one()
    assert found == 1
    assert not stack.home.runtime_file.exists()


def test_a_lake_without_a_catalog_is_refused(stack: Stack, known: ExternalServices) -> None:
    stack.project.settings_file.write_text("{}\n")
    with pytest.raises(SpecError, match="names none") as error:
        stack.use(known, None)
    assert "catalogs:" in error.value.next
    assert not stack.home.runtime_file.exists()


def test_the_home_of_a_whole_stack_keeps_its_registry(stack: Stack, known: ExternalServices) -> None:
    stack.home.root.mkdir()
    StackState(ports={"postgres": 1}).save(stack.home)
    with pytest.raises(Refused, match="PostgreSQL of that stack"):
        stack.use(known, None)


def test_another_registry_needs_another_home(stack: Stack, known: ExternalServices) -> None:
    stack.use(known, None)
    with pytest.raises(Refused, match="drivers of its streams may run") as error:
        stack.use(external.registry(known.registry + "x"), None)
    assert "rm " in error.value.next
    assert "services.json" in error.value.next


def test_a_newer_registry_that_this_version_cannot_use_is_refused(stack: Stack, known: ExternalServices) -> None:
    stack.use(known, None)
    with connect(known.url, stack.home.pgpass) as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version.known() + 2:04}'")
    with pytest.raises(Refused, match="newer than this Lakeward"):
        stack.use(known, None)


def test_the_stack_of_such_a_home_is_connect_server_and_checker(stack: Stack, known: ExternalServices) -> None:
    stack.use(known, None)
    assert groups.resolve(None, groups.of(stack.home)) == {"connect", "checker"}
    assert groups.resolve(["checker"], groups.of(stack.home)) == {"connect", "checker"}
    with pytest.raises(SpecError, match="does not run: kafka"):
        groups.resolve(["kafka"], groups.of(stack.home))
    assert [part.name for part in stack.status()] == ["connect", "checker"]
    assert supervised.cause(stack.project, stack.home) is None, "its Airflow supervises, and is none of its parts"


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ("postgresql://u:pw@h/d", "LW-7029", "holds a password"),
        ("mysql://u@h/d", "LW-7033", "is a PostgreSQL database"),
        ("postgresql://h:1", "LW-7033", "no USER and no DATABASE"),
        ("h:5432", "LW-7033", "it has the form"),
    ],
)
def test_an_address_is_complete_and_holds_no_password(given: str, code: str, words: str) -> None:
    with pytest.raises(SpecError) as error:
        external.registry(given)
    assert error.value.code == code
    assert words in f"{error.value.what} {error.value.why}"
    assert "pw" not in str(error.value)


def test_the_address_keeps_its_tls_parameters_and_has_a_port() -> None:
    known = external.registry("postgresql+psycopg2://u@h/d?sslmode=verify-full")
    assert known.registry == "postgresql://u@h:5432/d?sslmode=verify-full"
    assert known.url == "postgresql+psycopg2://u@h:5432/d?sslmode=verify-full"


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("h:5432:d:u:one", "one"),
        ("# h:5432:d:u:no\n*:*:*:u:two\nh:5432:d:u:late", "two"),
        ("h:5432:other:u:no\n\nh:*:d:u:a\\:b\\\\c", "a\\:b\\\\c"),
    ],
)
def test_the_first_line_that_matches_gives_the_password(tmp_path: Path, text: str, password: str) -> None:
    file = tmp_path / "pgpass"
    file.write_text(text)
    assert external.password_line(external.registry("postgresql://u@h/d"), file) == f"h:5432:d:u:{password}\n"


def test_a_file_without_the_registry_says_which_line_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    file.write_text("elsewhere:5432:d:u:secret\n")
    with pytest.raises(SpecError, match="no line of") as error:
        external.password_line(external.registry("postgresql://u@h/d"), file)
    assert error.value.next == "add the line h:5432:d:u:PASSWORD"
    assert "secret" not in str(error.value)


def test_a_damaged_record_is_not_taken_for_a_whole_stack(stack: Stack) -> None:
    stack.home.root.mkdir()
    (stack.home.root / external.FILE).write_text(json.dumps({"registry": 1}))
    with pytest.raises(LakewardError, match="cannot be read"):
        groups.of(stack.home)
