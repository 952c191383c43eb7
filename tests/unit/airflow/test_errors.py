"""Foreseen errors of tasks in the log."""

from __future__ import annotations

import pytest
import structlog
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow.tasks.approval import report_errors
from lakeward.platform.errors import Refused


def test_a_foreseen_error_is_one_record_of_the_log_with_its_code_and_its_next_command() -> None:
    def work() -> None:
        raise Refused("Cannot do it", why="one reason\nand another", next="lakeward doctor", code="LW-0000")

    with structlog.testing.capture_logs() as records, pytest.raises(AirflowFailException, match="Cannot do it"):
        report_errors(work)
    fields = {"error": "Cannot do it [LW-0000]", "why": "one reason\nand another", "next": "lakeward doctor"}
    assert records == [{"event": "task failed", "log_level": "error", **fields}]
