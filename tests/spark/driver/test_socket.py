"""The word count of Spark's guide, from a real socket, over a kill and a restart."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from lakeward.platform.failures import FailureClass, classify
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


class Speaker:
    """A server that sends each client the lines it is told, and keeps none."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.clients: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                self.clients.append(self._server.accept()[0])
            except OSError:
                return

    def say(self, *lines: str) -> None:
        """To the newest client."""
        self.clients[-1].sendall("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        for each in self.clients:
            each.close()
        if self._server.fileno() < 0:
            return
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()


@pytest.fixture
def speaker() -> Iterator[Speaker]:
    made = Speaker()
    yield made
    made.close()


def words(lab: Any, port: int, **more: Any) -> dict[str, Any]:
    sql = "SELECT word, count(*) AS n FROM (SELECT explode(split(value, ' ')) AS word FROM source) GROUP BY word"
    document = lab.spec(
        "none",
        source={"socket": {"host": "127.0.0.1", "port": port}},
        transform={"sql": sql},
        sink={"console": {"mode": "complete"}},
        spark={"spark.sql.shuffle.partitions": 1},
        **more,
    )
    document.pop("decode")
    return document


def test_words_are_counted_and_each_start_begins_again(lab: Any, speaker: Speaker) -> None:
    document = words(lab, speaker.port)
    shown: dict[str, int] = {}

    def counted(said: list[Any]) -> dict[str, int]:
        rows = [json.loads(each["row"]) for each in said if each["event"] == "row"]
        return {row["word"]: row["n"] for row in rows}  # complete: a later batch says all of an earlier one again

    with structlog.testing.capture_logs() as said:
        running = lab.start(document)
        lab.until("a client", lambda: len(speaker.clients) == 1)
        speaker.say("apache spark", "apache hadoop")
        lab.until("two lines", lambda: counted(said).get("hadoop") == 1)
        speaker.say("apache kafka")
        lab.until("one more", lambda: counted(said).get("kafka") == 1)
        shown = counted(said)
        assert running.stop(60)
    assert shown == {"apache": 3, "spark": 1, "hadoop": 1, "kafka": 1}
    wanted = lab.wanted(document, known_query=str(running.query.id))
    assert running.assignment.checkpoint == f"{wanted.checkpoint}.start" and not Path(wanted.checkpoint).exists()

    def die() -> None:
        raise RuntimeError("killed")

    lab.started.clear()
    with failpoints.on("before-return", die):
        again = lab.start(document, known_query=str(running.query.id))
        lab.started.clear()  # its failure is the point
        lab.until("a second client", lambda: len(speaker.clients) == 2)
        speaker.say("lost with the batch")
        lab.until("its death", lambda: not again.active)
    with structlog.testing.capture_logs() as said:
        third = lab.start(document, known_query=str(again.query.id))
        lab.until("a third client", lambda: len(speaker.clients) == 3)
        speaker.say("apache again")
        lab.until("the line", lambda: counted(said).get("again") == 1)
        assert third.stop(60)
    assert counted(said) == {"apache": 1, "again": 1}, "neither the counts nor the batch of the earlier starts"
    assert len({str(each.query.id) for each in (running, again, third)}) == 3


def test_a_socket_nobody_listens_on_is_waited_for(lab: Any, speaker: Speaker) -> None:
    speaker.close()
    running = lab.start(words(lab, speaker.port))
    lab.started.clear()  # its failure is the point
    lab.until("its end", lambda: not running.active)
    failure = running.failure()
    assert failure is not None
    assert classify(error=failure[0], text=failure[1]) is FailureClass.DEPENDENCY
