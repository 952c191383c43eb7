"""A checking process heals itself when what it depends on was restarted: the next run is right, without a person."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Timer
from typing import Any

import pytest
from proxy import Proxy
from sqlalchemy import make_url

from lakeward.quality.runs.process import CheckingProcess
from lakeward.quality.runs.request import Request
from lakeward.stack import private

_LONG = "SELECT a.id FROM {batch} a, range(3000000000) b WHERE sha(concat(a.id, b.id)) = 'x'"
_SLOW = f'{{type: unexpected_rows_expectation, kwargs: {{unexpected_rows_query: "{_LONG}"}}, severity: info}}'


@pytest.fixture
def runtime(table: Any, own_server: Any) -> Any:
    """The table's runtime, with the server that may be killed."""
    token = private.write(own_server.folder / "token", own_server.token)
    return table.runtime.model_copy(update={"connect": f"127.0.0.1:{own_server.port}", "connect_token_file": token})


def ask(process: CheckingProcess, table: Any, runtime: Any) -> dict[str, Any]:
    request = Request(runtime=runtime, registry_url=table.url, project=table.project, tables=(table.name,))
    result: dict[str, Any]
    (result,) = process.ask(request, timeout_s=240, emit=lambda level, event, fields: None)
    return result


@pytest.fixture
def proxy(table: Any) -> Iterator[Proxy]:
    """The address of a server: first of the shared one, later of whatever a test puts there."""
    made = Proxy(int(table.runtime.connect.rpartition(":")[2]))
    yield made
    made.close()


@pytest.mark.campaign(
    held_by="tests/spark/quality/test_healing.py::test_a_busy_server_is_ended_and_the_one_after_it_is_waited_for"
)
def test_a_server_and_connections_to_postgresql_that_ended_between_runs_are_made_again(
    table: Any, proxy: Proxy, own_server: Any, postgres: Any
) -> None:
    """The process is the shared one: it has its session, its catalog and Great Expectations."""
    databases = (table.runtime.lake.database, make_url(table.url).database)
    runtime = table.runtime.model_copy(update={"connect": f"127.0.0.1:{proxy.port}"})
    table.append()
    assert table.check()["verdict"] == "pass"
    table.append()
    assert ask(table.process, table, runtime)["verdict"] == "pass"
    proxy.set("reset")
    proxy.target = own_server.port  # as after a restart: the same address and token, and no session of before
    proxy.set("pass")
    table.append(bad=1)
    assert ask(table.process, table, runtime)["verdict"] == "hold"
    postgres.end_connections(*databases)
    table.suite("{type: expect_column_to_exist, kwargs: {column: carrier}}")
    assert ask(table.process, table, runtime)["verdict"] == "pass"
    postgres.end_connections(*databases)
    table.suite()
    table.append(bad=1)
    assert ask(table.process, table, runtime)["verdict"] == "hold"

    # Runs on the first server go on with its session, also where pyspark takes the active one: for values of times.
    own_server.kill()
    table.sql("ALTER TABLE {t} ADD COLUMN at TIMESTAMP")
    table.sql("INSERT INTO {t} SELECT 999, 'AA', 1D, 0, 999, TIMESTAMP'2026-01-01 12:00:00Z'")
    table.suite("{type: expect_column_values_to_be_in_set, kwargs: {column: at, value_set: [2026-01-01T12:00:00Z]}}")
    result = table.check()
    assert result["verdict"] == "pass", result["checks"]


@pytest.mark.campaign
def test_a_server_that_was_killed_under_a_statement_is_forgotten(table: Any, runtime: Any, own_server: Any) -> None:
    with CheckingProcess(runtime) as process:
        table.append()
        ask(process, table, runtime)
        table.append()
        table.suite(_SLOW)
        killing = Timer(8, own_server.kill)
        killing.start()
        result = ask(process, table, runtime)
        killing.join()
        assert result["verdict"] == "error"
        own_server.start()
        table.suite()
        assert ask(process, table, runtime)["verdict"] == "pass"
