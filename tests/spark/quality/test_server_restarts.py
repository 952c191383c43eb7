"""A checking process heals itself when what it depends on was restarted: the next run is right, without a person."""

from __future__ import annotations

from threading import Timer
from typing import Any

import pytest
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


def test_a_server_and_connections_to_postgresql_that_ended_between_runs_are_made_anew(
    table: Any, runtime: Any, own_server: Any, postgres: Any
) -> None:
    databases = (table.runtime.lake.database, make_url(table.url).database)
    with CheckingProcess(runtime) as process:
        table.append()
        assert ask(process, table, runtime)["verdict"] == "pass"
        own_server.kill()
        own_server.start()
        table.append(bad=1)
        assert ask(process, table, runtime)["verdict"] == "hold"
        postgres.end_connections(*databases)
        table.suite("{type: expect_column_to_exist, kwargs: {column: carrier}}")
        assert ask(process, table, runtime)["verdict"] == "pass"
        postgres.end_connections(*databases)
        table.suite()
        table.append(bad=1)
        assert ask(process, table, runtime)["verdict"] == "hold"


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
