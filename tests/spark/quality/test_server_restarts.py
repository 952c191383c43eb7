"""A checking process heals itself when the Connect server was killed: the next run is right."""

from __future__ import annotations

from threading import Timer
from typing import Any

import pytest

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


def test_a_server_that_was_started_anew_between_runs_is_used(table: Any, runtime: Any, own_server: Any) -> None:
    with CheckingProcess(runtime) as process:
        table.append()
        assert ask(process, table, runtime)["verdict"] == "pass"
        own_server.kill()
        own_server.start()
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
