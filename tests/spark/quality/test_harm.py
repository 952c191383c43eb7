"""A check that ends the Connect server is an error, and no other check pays for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

import pytest

from lakeward.connectors.spark import server_process
from lakeward.connectors.spark.connect import session
from lakeward.quality.runs.process import CheckingProcess
from lakeward.quality.runs.request import Request
from lakeward.stack import private

pytestmark = pytest.mark.timeout(1800)

NOT_NULL = "{type: expect_column_values_to_not_be_null, kwargs: {column: carrier}}"
RANGE = "{type: expect_column_values_to_be_between, kwargs: {column: id, min_value: 1, max_value: 100}}"
MEMORY = "SELECT * FROM {batch} WHERE length(repeat('x', 2000000000)) = id"
"""Spark computes the constant while it plans: 2 GB in a heap of one."""


DEEP = '{type: expect_column_values_to_match_regex, kwargs: {column: carrier, regex: "(A|B)*C"}}'
"""Java needs a stack as deep as the text is long, and Spark ends the server for it."""


def query(text: str) -> str:
    return json.dumps({"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": text}})


@pytest.fixture
def supervised(own_server: Any) -> Iterator[Any]:
    """The server with a supervisor: whenever it ended, it is started again."""
    over = threading.Event()

    def supervise() -> None:
        while not over.wait(0.3):
            if own_server._server.poll() is not None:
                with suppress(AssertionError):  # the check ended it before it was up: once more
                    own_server.start()

    thread = threading.Thread(target=supervise, daemon=True)
    thread.start()
    yield own_server
    over.set()
    thread.join()


@pytest.fixture
def harmed(table: Any, supervised: Any) -> Any:
    """Ten rows, and the runtime of the server that may end."""
    table.sql("INSERT INTO {t} SELECT id, 'AA', 1D, 0, id FROM range(10)")
    token = private.write(supervised.folder / "token", supervised.token)
    where = {"connect": f"127.0.0.1:{supervised.port}", "connect_token_file": token}
    table.runtime = table.runtime.model_copy(update=where)
    return table


def ask(process: CheckingProcess, table: Any) -> list[tuple[str, str]]:
    """State and error of each check of a run of the whole table."""
    request = Request(
        runtime=table.runtime, registry_url=table.url, project=table.project, tables=(table.name,), scope="table"
    )  # fmt: skip
    (result,) = process.ask(request, timeout_s=1200, emit=lambda level, event, fields: table.told.append(event))
    return [(each["state"], each.get("error") or "") for each in result["checks"]]


def idle(table: Any) -> None:
    """Wait until the server answers and no thread of it works."""
    end = monotonic() + 120
    while monotonic() < end:
        process = server_process.find(table.runtime)
        if process is not None and server_process.working(process) == 0:
            break
        sleep(1)
    else:
        pytest.fail("a thread of the server works on")
    with session(table.runtime) as spark:
        assert spark.range(10).count() == 10


@pytest.mark.campaign(
    held_by="tests/unit/quality/engine/test_rescue.py::"
    "test_a_server_that_is_about_to_end_and_still_answers_costs_no_other_check_its_verdict"
)
def test_a_pattern_that_needs_too_deep_a_stack_costs_no_other_check_its_verdict(harmed: Any) -> None:
    harmed.sql("INSERT INTO {t} SELECT id, repeat('AB', 300000), 1D, 0, id FROM range(2)")
    harmed.suite(NOT_NULL, RANGE, DEEP)
    with CheckingProcess(harmed.runtime) as process:
        found = ask(process, harmed)
    assert [state for state, _ in found] == ["pass", "fail", "error"], found
    assert "write [ab]*" in found[2][1]
    idle(harmed)


@pytest.mark.campaign
def test_a_check_that_ends_the_server_costs_no_other_its_verdict(harmed: Any, supervised: Any) -> None:
    harmed.suite(NOT_NULL, RANGE, query(MEMORY))
    with CheckingProcess(harmed.runtime) as process:
        found = ask(process, harmed)
        assert [state for state, _ in found] == ["pass", "fail", "error"], found
        assert "ended while it computed this check alone" in found[2][1]
        running = supervised._server.pid
        again = ask(process, harmed)
        assert [state for state, _ in again] == ["pass", "fail", "error"], again
        assert "computed again after" in again[2][1] and supervised._server.pid == running, "it was not computed"
    idle(harmed)
