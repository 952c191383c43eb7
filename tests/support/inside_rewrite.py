"""An engine in whose running rewrite another writer commits: it has read, and has not committed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

from lakeward.platform.runtime import Runtime
from lakeward.tables.act.server import Statements, _server


def inside(runtime: Runtime, folder: Path, version: Callable[[], Any], act: Callable[[], object]) -> type[Statements]:
    """An engine that stops the server when the first new file of its first rewrite is being written, and goes on after
    `act`. The other writer has to be another process than the server.

    Args:
        runtime: names the server.
        folder: the table's.
        version: the table's head; it must be the same until `act`.
    """

    class Inside(Statements):
        acted = False

        def execute(self, statement: str) -> list[dict[str, object]]:
            from pyspark.errors import PySparkException

            if Inside.acted or not statement.startswith(("CALL", "OPTIMIZE")):
                return super().execute(statement)
            Inside.acted = True
            before, known = version(), set(folder.rglob("*.parquet"))
            again, answers, errors = super().execute, [], []

            def work() -> None:
                try:
                    answers.append(again(statement))
                except PySparkException as error:  # raised below, in the thread of the caller
                    errors.append(error)

            running = threading.Thread(target=work)
            running.start()
            server = _server(runtime)
            assert server is not None
            while running.is_alive() and not set(folder.rglob("*.parquet")) - known:
                sleep(0.002)
            os.kill(server.pid, signal.SIGSTOP)
            try:
                assert version() == before, "stopped before it committed"
                act()
            finally:
                os.kill(server.pid, signal.SIGCONT)
                running.join()
            if errors:
                raise errors[0]
            return answers[0]

    return Inside
